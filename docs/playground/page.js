// The page: buttons, time and the picture. Everything that happens is decided in engine.js, which is leasehold's WebAssembly.
'use strict';

(async () => {
  const find = (id) => document.getElementById(id);

  const problem = (text) => {
    find('problem').textContent = text;
    find('problem').hidden = false;
  };
  if (typeof wasm_bindgen === 'undefined') {
    return problem('The file engine.js is missing. Run `cargo xtask playground` in the root of the repository, then reload this page.');
  }
  try {
    const bytes = Uint8Array.from(atob(WASM), (letter) => letter.charCodeAt(0));
    await wasm_bindgen({ module_or_path: bytes });
  } catch (error) {
    return problem(`This browser can't start the WebAssembly module: ${error.message}. Use a browser of 2021 or newer.`);
  }

  /** The longest time between two pictures, in ms. After a longer one, the page was in the background, and time stood still. */
  const LONGEST_FRAME = 250;
  /** Milliseconds between two pictures. */
  const FRAME = 40;
  /** How long a running scenario halts after a step, in ms, so that a reader can look at it. */
  const HALT = 1_500;
  const SERVER = 3;
  /** The scenario that the page opens with. */
  const FIRST = 'Paused writer';
  const OVER = 'The scenario is over. Start it again, choose another one, or go on with the buttons below.';

  const { Playground } = wasm_bindgen;
  const playground = new Playground();
  let running = false;
  let shownLines = 0;

  const CARDS = [
    ...['A', 'B', 'C'].map((name, client) => ({
      title: `Client ${name}`, className: name.toLowerCase(), client, text: () => playground.clientText(client),
      actions: ['acquire', 'release', 'write', 'pause', 'kill', 'cut', 'lose-reply'],
    })),
    { title: 'Server', className: 'server', client: SERVER, text: () => playground.serverText(), actions: ['wipe', 'fail-over'] },
    { title: 'Resource', className: 'resource', client: SERVER, text: () => playground.resourceText(), actions: [] },
  ];
  const cards = CARDS.map(makeCard);

  for (const [number, title] of Playground.scenarios().entries()) find('scenario').append(new Option(title, number));
  find('scenario').addEventListener('change', begin);
  find('again').addEventListener('click', begin);
  find('step').addEventListener('click', step);
  find('run').addEventListener('click', () => run(!running));
  find('seconds').addEventListener('change', show);
  window.addEventListener('resize', show);
  document.addEventListener('keydown', onKey);
  for (const link of document.querySelectorAll('a[data-page]')) {
    // In the published manual, the pages are HTML.
    if (location.protocol !== 'file:') link.href = `../${link.dataset.page}`;
  }
  const wanted = Number.parseInt(location.hash.slice(1), 10) - 1;
  const exists = wanted >= 0 && wanted < Playground.scenarios().length;
  find('scenario').value = String(exists ? wanted : Playground.scenarios().indexOf(FIRST));
  begin();
  run(!matchMedia('(prefers-reduced-motion: reduce)').matches);

  function makeCard({ title, className, client, text, actions }) {
    const card = document.createElement('section');
    card.className = `card ${className}`;
    card.setAttribute('aria-label', title);
    const heading = document.createElement('h2');
    heading.textContent = title;
    const state = document.createElement('p');
    const row = document.createElement('div');
    row.className = 'buttons';
    const buttons = actions.map((action) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.dataset.action = action;
      button.addEventListener('click', () => {
        playground.press(action, client);
        show();
      });
      row.append(button);
      return button;
    });
    card.append(heading, state, row);
    find('cards').append(card);
    return { title, client, text, state, buttons };
  }

  /** Starts again, with the chosen scenario. */
  function begin() {
    run(false);
    const chosen = find('scenario').value;
    playground.begin(chosen === '' ? undefined : Number(chosen));
    shownLines = 0;
    find('log').replaceChildren();
    find('about').textContent = playground.about();
    find('story').hidden = chosen === '';
    find('steps').replaceChildren(...playground.steps().map((text) => {
      const item = document.createElement('li');
      item.textContent = text;
      return item;
    }));
    show();
  }

  function step() {
    run(false);
    playground.step();
    show();
  }

  /** Lets virtual time pass as fast as real time, or stops it. A scenario halts after each step, and stops at its end. */
  function run(on) {
    if (on && !running) {
      const goesOn = playground.isOver();
      let last = performance.now();
      const frame = (now) => {
        if (!running) return;
        if (now - last >= FRAME) {
          playground.advance(Math.min(now - last, LONGEST_FRAME));
          last = playground.rests() ? now + HALT : now;
          show();
          if (playground.isOver() && !goesOn) run(false);
        }
        requestAnimationFrame(frame);
      };
      requestAnimationFrame(frame);
    }
    running = on;
    find('run').textContent = on ? 'Stop' : 'Run';
    find('run').setAttribute('aria-pressed', String(on));
  }

  function onKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    // A control that has the focus uses these keys itself. The arrow steps from a button too.
    const control = event.target.closest('button, select, a, summary');
    const steps = event.key === 'ArrowRight' ? control?.tagName !== 'SELECT' : event.key === ' ' && !control;
    if (steps) step();
    else if (event.key.toLowerCase() === 'r' && control?.tagName !== 'SELECT') run(!running);
    else return;
    event.preventDefault();
  }

  function show() {
    find('time').textContent = `${(playground.nowMs() / 1000).toFixed(2)} s`;
    const width = Math.max(700, find('timeline').clientWidth);
    find('timeline').innerHTML = playground.timeline(Number(find('seconds').value), width);
    // On a phone, the present stays in sight.
    const present = Number(find('timeline').querySelector('.now').getAttribute('x1'));
    find('timeline').scrollLeft = present - find('timeline').clientWidth * 0.7;
    for (const { title, client, text, state, buttons } of cards) {
      setText(state, text());
      for (const button of buttons) {
        const { action } = button.dataset;
        const label = playground.label(action, client);
        setText(button, label);
        button.setAttribute('aria-label', `${title}: ${label}`);
        setDisabled(button, !playground.allows(action, client));
      }
    }
    const played = playground.played();
    for (const [number, item] of [...find('steps').children].entries()) {
      item.classList.toggle('played', number < played);
      if (number === played - 1) item.setAttribute('aria-current', 'step');
      else item.removeAttribute('aria-current');
    }
    setText(find('over'), playground.isOver() ? OVER : '');
    addLines();
  }

  function addLines() {
    const lines = playground.log(shownLines);
    shownLines += lines.length;
    for (const line of lines) {
      const item = document.createElement('li');
      item.textContent = line;
      find('log').append(item);
    }
    if (lines.length > 0) find('log').scrollTop = find('log').scrollHeight;
  }

  /** Text that stays the same must not be set: a screen reader would read it again. */
  function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  /** The button keeps the focus, which a `disabled` one would lose. Pressing it changes nothing. */
  function setDisabled(button, disabled) {
    if (disabled) button.setAttribute('aria-disabled', 'true');
    else button.removeAttribute('aria-disabled');
  }
})();

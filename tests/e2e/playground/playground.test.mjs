// The playground in a headless Chromium. `cargo xtask test --full` runs this.
import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';

import { directory, installed, launch, log, open, overlaps, picture } from './browser.mjs';

const SCENARIOS = [
  ['Crashed holder', 5, [/The server gives B the lock/, /accepts B's write/]],
  ['Paused writer', 6, [/A is paused/, /accepts B's write/, /refuses A's write/, /A is notified that it lost the lock/]],
  ['Lost reply', 4, [/loses the reply to A/, /A holds the lock/, /accepts A's write/]],
  ['Failover', 6, [/A replica takes over/, /accepts B's write/, /refuses A's write/, /A is notified that it lost the lock/]],
];

const skip = installed() ? false : 'no Chromium is installed: install the package `chromium`, or set CHROMIUM to its path';

describe('the playground', { skip }, () => {
  let browser;
  before(async () => { browser = await launch(); });
  after(() => browser?.close());

  for (const [place, [title, steps, lines]] of SCENARIOS.entries()) {
    test(`the scenario "${title}" plays to its end by keyboard alone`, async () => {
      const colorScheme = place % 2 === 0 ? 'light' : 'dark';
      const { page, seen } = await open(browser, { colorScheme });
      await page.keyboard.press('Tab');
      assert.equal(await page.evaluate(() => document.activeElement.id), 'scenario');
      await page.keyboard.press('Home');
      for (let moved = 0; moved <= place; moved += 1) await page.keyboard.press('ArrowDown');
      assert.equal(await page.locator('#steps li').count(), steps);
      await page.keyboard.press('Tab');
      await page.keyboard.press('ArrowRight');
      // Without the focus on a button, both keys make a step.
      await page.evaluate(() => document.activeElement.blur());
      for (let step = 1; step < steps; step += 1) await page.keyboard.press(step % 2 === 0 ? 'ArrowRight' : 'Space');
      assert.equal(await page.locator('#steps li.played').count(), steps);
      const text = await log(page);
      for (const line of lines) assert.match(text, line);
      assert.match(await page.locator('#over').textContent(), /The scenario is over/);
      assert.deepEqual(await overlaps(page), []);
      await picture(page, `${title.toLowerCase().replace(' ', '-')}-${colorScheme}`);
      assert.deepEqual(seen.errors, []);
      await page.close();
    });
  }

  test('the page opens with a scenario that runs, and says when it is over', async () => {
    const { page, seen } = await open(browser, { reducedMotion: 'no-preference' });
    assert.equal(await page.locator('#scenario option:checked').textContent(), 'Paused writer');
    assert.equal(await page.locator('#run').textContent(), 'Stop');
    await page.waitForFunction(() => document.querySelector('#over').textContent !== '', null, { timeout: 600_000 });
    assert.match(await page.locator('#over').textContent(), /The scenario is over/);
    assert.equal(await page.locator('#run').textContent(), 'Run');
    assert.match(await log(page), /refuses A's write/);
    await page.locator('#again').click();
    assert.equal(await page.locator('#over').textContent(), '');
    assert.deepEqual(seen.errors, []);
    await page.close();
  });

  test('words of the timeline don\'t cover each other while a holder renews', async () => {
    const { page } = await open(browser);
    await page.locator('#scenario').selectOption('');
    for (const client of ['A', 'B']) await page.getByRole('button', { name: `Client ${client}: Acquire` }).click();
    for (const seconds of ['12', '30', '0']) {
      await page.locator('#seconds').selectOption(seconds);
      for (let step = 0; step < 12; step += 1) {
        await page.locator('#step').click();
        assert.deepEqual(await overlaps(page), []);
      }
    }
    await page.close();
  });

  test('the buttons work, and nothing leaves the page', async () => {
    const { page, seen } = await open(browser);
    await page.locator('#scenario').selectOption('');
    const button = (name) => page.getByRole('button', { name, exact: true });
    const card = (name) => page.locator('section', { has: page.getByRole('heading', { name, exact: true }) }).locator('p');
    await button('Client A: Acquire').click();
    await button('Client B: Acquire').click();
    await button('Run').click();
    await page.waitForFunction(() => document.querySelector('#log').textContent.includes('puts B in the queue'));
    await button('Stop').click();
    assert.match(await card('Client A').textContent(), /It holds the lock, with fence/);
    assert.match(await card('Server').textContent(), /A has the lock.*Queue: B/);
    await button('Client A: Pause').click();
    assert.equal(await button('Client A: Resume').count(), 1);
    assert.equal(await button('Client A: Release').getAttribute('aria-disabled'), 'true');
    await button('Server: Wipe').click();
    assert.match(await card('Server').textContent(), /The lock is free/);
    await picture(page, 'buttons-light');
    assert.deepEqual(seen.errors, []);
    assert.ok(seen.requests.length >= 4 && seen.requests.every((url) => url.startsWith('file:')), String(seen.requests));
    await page.close();
  });

  test('the keyboard reaches every button, and the focus is visible', async () => {
    const { page } = await open(browser);
    const reached = new Set();
    const outlines = [];
    for (let presses = 0; presses < 60; presses += 1) {
      await page.keyboard.press('Tab');
      const [name, outline] = await page.evaluate(() => {
        const element = document.activeElement;
        return [element.getAttribute('aria-label') ?? element.id, getComputedStyle(element).outlineStyle];
      });
      if (reached.has(name)) break;
      reached.add(name);
      if (name) outlines.push([name, outline]);
    }
    const buttons = await page.locator('button').evaluateAll((all) => all.map((each) => each.getAttribute('aria-label') ?? each.id));
    assert.equal(buttons.length, 3 + 3 * 7 + 2);
    assert.deepEqual(buttons.filter((name) => !reached.has(name)), []);
    assert.deepEqual(outlines.filter(([, outline]) => outline === 'none'), []);
    await page.close();
  });

  test('dark mode has light text on a dark page', async () => {
    const brightness = async (colorScheme) => {
      const { page } = await open(browser, { colorScheme });
      const colours = await page.evaluate(() => {
        const level = (colour) => colour.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3;
        const timeline = document.querySelector('#timeline .back');
        const style = getComputedStyle(document.body);
        return [style.color, style.backgroundColor, getComputedStyle(timeline).fill].map(level);
      });
      await page.close();
      return colours;
    };
    const [ink, back, timeline] = await brightness('dark');
    assert.ok(ink > 180 && back < 60 && timeline < 60, String([ink, back, timeline]));
    const [lightInk, lightBack, lightTimeline] = await brightness('light');
    assert.ok(lightInk < 80 && lightBack > 230 && lightTimeline > 230, String([lightInk, lightBack, lightTimeline]));
  });

  test('the page works on a web server, from any directory', async () => {
    const types = { html: 'text/html', js: 'text/javascript', css: 'text/css' };
    const server = createServer(({ url }, response) => {
      const name = url.split('/').at(-1);
      try {
        response.writeHead(200, { 'content-type': types[name.split('.').at(-1)] }).end(readFileSync(join(directory, name)));
      } catch {
        response.writeHead(404).end();
      }
    });
    await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
    const { page, seen } = await open(browser, { url: `http://127.0.0.1:${server.address().port}/some/where/index.html#4` });
    assert.match(await page.locator('#about').textContent(), /replica can take over/, 'the address chooses the scenario');
    assert.deepEqual(seen.errors, []);
    await page.close();
    server.close();
  });

  test('without the built module, the page says which command to run', async () => {
    const copy = mkdtempSync(join(tmpdir(), 'leasehold-playground-'));
    for (const name of ['index.html', 'page.css', 'page.js']) copyFileSync(join(directory, name), join(copy, name));
    const { page } = await open(browser, { url: pathToFileURL(join(copy, 'index.html')).href });
    assert.match(await page.locator('#problem').textContent(), /cargo xtask playground/);
    await page.close();
    rmSync(copy, { recursive: true });
  });
});

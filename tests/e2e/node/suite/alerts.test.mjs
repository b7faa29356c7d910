// Prometheus' own `promtool` checks the manual's alerts and dashboard on the metrics of a Rust service and a Node service.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { startServer } from '../support/server.mjs';

const run = promisify(execFile);
const here = (path) => join(import.meta.dirname, '..', path);
const page = (name) => readFileSync(here(`docs/${name}`), 'utf8');
const directory = mkdtempSync(join(tmpdir(), 'leasehold-alerts-'));
after(() => rmSync(directory, { recursive: true, force: true }));

/** The rows of the manual's table. */
const ALERTS = page('metrics.md').split('## What to alert on')[1].split('\n## ')[0].split('\n')
  .map((row) => /^\| (?<alert>[^|`]+) \| `(?<expr>[^`]+)` \|$/.exec(row)?.groups).filter(Boolean);

/** The queries of the dashboard, with values in place of Grafana's variables. */
const QUERIES = JSON.parse(page('grafana.json')).panels.flatMap(({ title, targets }) => targets.map(({ refId, expr }) => {
  return { alert: `${title}, ${refId}`, expr: expr.replaceAll('$job', '.*').replaceAll('$__rate_interval', '5m') };
}));

/** The metrics of a text, without what Prometheus adds to the name of a histogram. */
const metricsOf = (text) => [...text.matchAll(/\bleasehold_\w+/g)].map(([name]) => name.replace(/_(bucket|sum|count)$/, ''));

/** How often Prometheus sees each scrape. It scrapes once a minute. */
const TIMES = 15;
const QUIET = `${2 * TIMES - 1}m`;
const EVENTFUL = `${3 * TIMES + 1}m`;

const [documented, inJavaScript] = ['metrics.md', 'events.md'].map((name) => metricsOf(page(name)));

/** The programs, and the metrics that the manual says they lack. */
const SERVICES = {
  Rust: { command: [join(process.env.LEASEHOLD_WORKERS, 'live-metered')], lacks: [] },
  Node: { command: [process.execPath, here('programs/metered.mjs')], lacks: documented.filter((name) => !inJavaScript.includes(name)) },
};

/** A series and its value, if the line has one. Prometheus adds the label `job`. */
function read(line) {
  const { name, labels, value } = /^(?<name>leasehold_\w+)(?:\{(?<labels>.*)\})? (?<value>[\d.e+-]+)(?: \d+)?$/.exec(line)?.groups ?? {};
  return name ? [[`${name}{${[labels, 'job="service"'].filter(Boolean).join()}}`, value]] : [];
}

/** What a service exports: its series, each with its value in each scrape. */
async function scraped([program, ...words]) {
  const server = await startServer();
  try {
    const { stdout } = await run(program, [...words, `${server.port}`], { timeout: 600_000, maxBuffer: 2 ** 26 });
    const scrapes = stdout.split('# scrape\n').slice(1).map((text) => new Map(text.split('\n').flatMap(read)));
    assert.equal(scrapes.length, 4, stdout);
    return scrapes;
  } finally {
    await server.stop();
  }
}

/** Lets promtool compute which rules fire on these scrapes: none before the events, and after them those for which `fires` is true. */
async function judge(scrapes, rules, fires) {
  const series = [...new Set(scrapes.flatMap((scrape) => [...scrape.keys()]))];
  const values = (key) => scrapes.map((scrape) => (scrape.has(key) ? `${scrape.get(key)}+0x${TIMES - 1}` : `_x${TIMES}`)).join(' ');
  const expected = rules.flatMap(({ alert }) => [
    { eval_time: QUIET, alertname: alert, exp_alerts: [] },
    { eval_time: EVENTFUL, alertname: alert, exp_alerts: fires(alert) ? [{ exp_labels: {} }] : [] },
  ]);
  const input = series.map((key) => ({ series: key, values: values(key) }));
  const tests = [{ interval: '1m', input_series: input, alert_rule_test: expected }];
  // JSON is YAML.
  writeFileSync(join(directory, 'rules.yml'), JSON.stringify({ groups: [{ name: 'manual', rules }] }));
  writeFileSync(join(directory, 'tests.yml'), JSON.stringify({ rule_files: ['rules.yml'], evaluation_interval: '1m', tests }));
  const judged = run(process.env.LEASEHOLD_PROMTOOL, ['test', 'rules', 'tests.yml'], { cwd: directory });
  await judged.catch(({ message, stdout }) => assert.fail(`${message}\n${stdout}`));
}

test('the manual has alerts and the dashboard has queries', () => {
  assert.ok(process.env.LEASEHOLD_PROMTOOL, 'LEASEHOLD_PROMTOOL is the path of promtool: `cargo xtask ci` gets it');
  assert.ok(ALERTS.length >= 4 && QUERIES.length >= 11, JSON.stringify([ALERTS, QUERIES]));
});

for (const [language, { command, lacks }] of Object.entries(SERVICES)) {
  test(`every alert fires at the first event of a service in ${language}, and no query of the dashboard is empty`, async () => {
    const scrapes = await scraped(command);
    await judge(scrapes, ALERTS, () => true);

    const lacking = QUERIES.filter(({ expr }) => metricsOf(expr).some((name) => lacks.includes(name)));
    // A query shows something in the minutes around the events.
    const shows = QUERIES.map(({ alert, expr }) => ({ alert, expr: `max_over_time(sum(${expr})[5m:1m]) > 0` }));
    await judge(scrapes, shows, (alert) => !lacking.some((query) => query.alert === alert));

    // A label that no series has groups nothing, and excludes nothing.
    for (const { alert, expr } of [...ALERTS, ...QUERIES].filter((rule) => !lacking.includes(rule))) {
      const series = scrapes.flatMap((scrape) => [...scrape.keys()]).filter((key) => metricsOf(expr).includes(metricsOf(key)[0]));
      const has = new Set(series.flatMap((key) => [...key.matchAll(/(\w+)="/g)].map(([, label]) => label)));
      const used = [...expr.matchAll(/by \(([^)]*)\)|[{,] ?(\w+)[=!]/g)].flatMap(([, by, selected]) => (by ?? selected).split(/, */));
      for (const label of used) assert.ok(has.has(label), `${language}: ${alert}: no series has the label ${label}`);
    }
  });
}

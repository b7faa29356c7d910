// The machine's Chromium, and the page in it. PLAYGROUND is the page's directory, CHROMIUM names a browser of your own.
import { accessSync, constants, mkdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { chromium } from 'playwright-core';

export const directory = process.env.PLAYGROUND;
const pictures = process.env.PICTURES;

/** The path of an installed browser, or undefined. */
export function installed() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
  const paths = (process.env.PATH ?? '').split(delimiter).flatMap((path) => names.map((name) => join(path, name)));
  return paths.find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

export function launch() {
  return chromium.launch({ executablePath: installed() });
}

/** Opens the page from its file, or from another address. The scenario runs by itself, unless a reader wants no motion. */
export async function open(browser, { colorScheme = 'light', reducedMotion = 'reduce', url = pathToFileURL(join(directory, 'index.html')).href } = {}) {
  const page = await browser.newPage({ colorScheme, reducedMotion, viewport: { width: 1280, height: 1000 } });
  const seen = { errors: [], requests: [] };
  page.on('pageerror', (error) => seen.errors.push(error.message));
  page.on('request', (request) => seen.requests.push(request.url()));
  await page.goto(url);
  await page.waitForSelector('#timeline svg, #problem:not([hidden])');
  return { page, seen };
}

/** What the log says. */
export async function log(page) {
  return (await page.locator('#log li').allTextContents()).join('\n');
}

/** Words of the timeline that cover others, by more than the edges of their letters. */
export function overlaps(page) {
  return page.locator('#timeline text.words').evaluateAll((all) => {
    const words = all.map((text) => ({ text: text.textContent, box: text.getBoundingClientRect() }));
    const covers = ({ box: a }, { box: b }) => a.left < b.right - 2 && b.left < a.right - 2 && a.top < b.bottom - 3 && b.top < a.bottom - 3;
    return words.flatMap((one, place) => words.slice(place + 1).filter((other) => covers(one, other)).map((other) => [one.text, other.text]));
  });
}

/** Saves a picture of the page for a reader of the tests. */
export async function picture(page, name) {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true });
}

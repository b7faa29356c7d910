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

/** Opens the page from its file, or from another address. Fails the test on errors of the page. */
export async function open(browser, { colorScheme = 'light', url = pathToFileURL(join(directory, 'index.html')).href } = {}) {
  const page = await browser.newPage({ colorScheme, viewport: { width: 1280, height: 1000 } });
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

/** Saves a picture of the page for a reader of the tests. */
export async function picture(page, name) {
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true });
}

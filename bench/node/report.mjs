import { availableParallelism } from 'node:os';

/** The measurements: printed at once, and kept for a file. */
export class Report {
  content = { node: process.version, cores: availableParallelism(), aims: [] };

  constructor() {
    const { node, cores } = this.content;
    console.log(`Node ${node}, ${cores} cores shared by clients and server; median (least to most) of the rounds`);
  }

  title(title) {
    console.log(`\n${title}`);
  }

  /** Prints a row of cells, each with its width. A negative width aligns to the left. */
  line(...cells) {
    console.log(`  ${cells.map(([text, width]) => (width < 0 ? `${text}`.padEnd(-width) : `${text}`.padStart(width))).join('  ')}`);
  }

  /** Stores a row of a section. */
  add(section, row) {
    (this.content[section] ??= []).push(row);
  }

  /** Stores whether an aim was met. */
  aim(what, met, measured) {
    this.content.aims.push({ aim: what, met, measured });
  }

  printAims() {
    console.log('\nAims');
    for (const { aim, met, measured } of this.content.aims) console.log(`  ${met ? 'met   ' : 'MISSED'}  ${aim}: ${measured}`);
  }
}

/** Several measurements of one thing. */
export class Spread {
  constructor(values) {
    const sorted = values.toSorted((a, b) => a - b);
    this.median = sorted[sorted.length >> 1];
    this.least = sorted[0];
    this.most = sorted.at(-1);
  }

  shown(digits = 0) {
    return `${this.median.toFixed(digits)} (${this.least.toFixed(digits)} to ${this.most.toFixed(digits)})`;
  }
}

/** The percentile of a sorted list. */
export function percentile(sorted, percent) {
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * percent) / 100))] ?? 0;
}

/** Formats milliseconds in µs, ms or s. */
export function time(ms) {
  if (ms < 1) return `${(ms * 1000).toFixed(0)} µs`;
  return ms < 1000 ? `${ms.toFixed(1)} ms` : `${(ms / 1000).toFixed(2)} s`;
}

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Command } from './command.js';

function command(...words: string[]): Command {
  const wire = `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`;
  return new Command(wire, Buffer.byteLength(wire));
}

test('a_command_is_read_back_word_for_word', () => {
  for (const words of [['PING'], ['EVALSHA', '', 'a b', '$3\r\nabc\r\n', '\r\n'], ['EVALSHA', 'ключ', '\u{1F512}', '\uFEFFbom', '', '\r\n'], []]) {
    assert.deepEqual(command(...words).words, words);
  }
});

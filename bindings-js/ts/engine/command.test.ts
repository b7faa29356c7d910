import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';

import { SCRIPTS } from '../../generated/scripts.js';
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

test('a_command_that_brings_its_script_has_the_text_in_the_place_of_the_digest', () => {
  for (const digest of Object.keys(SCRIPTS)) {
    for (const name of ['door', 'ключ', '*1\r\n$4\r\nEVAL\r\n$40\r\n']) {
      const [evaluate, source = '', ...rest] = command('EVAL', digest, '1', name).words;
      assert.deepEqual([evaluate, createHash('sha1').update(source).digest('hex'), ...rest], ['EVAL', digest, '1', name]);
    }
    assert.deepEqual(command('EVALSHA', digest, '0').words, ['EVALSHA', digest, '0']);
  }
  assert.throws(() => command('EVAL', '0'.repeat(40), '0'), /another version/);
});

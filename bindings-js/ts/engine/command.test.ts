import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';

import { PREFIX, SCRIPTS } from '../../generated/scripts.js';
import { Command } from './command.js';

function command(...words: string[]): Command {
  const wire = `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`;
  return new Command(wire, Buffer.byteLength(wire));
}

test('a_command_is_read_back_word_for_word', () => {
  for (const words of [['PING'], ['DELIFEQ', '', 'a b', '$3\r\nabc\r\n', '\r\n'], ['PUBLISH', 'ключ', '\u{1F512}', '\uFEFFbom', '', '\r\n'], []]) {
    assert.deepEqual(command(...words).words, words);
  }
});

test('a_command_has_the_digest_or_the_text_in_the_place_of_the_beginning_of_the_digest', () => {
  for (const [digest] of SCRIPTS) {
    assert.equal(digest.length, 40);
    const prefix = digest.slice(0, PREFIX);
    for (const name of ['door', 'ключ', '*1\r\n$4\r\nEVAL\r\n$4\r\n']) {
      const [evaluate, source = '', ...rest] = command('EVAL', prefix, '1', name).words;
      assert.deepEqual([evaluate, createHash('sha1').update(source).digest('hex'), ...rest], ['EVAL', digest, '1', name]);
      const byDigest = command('EVALSHA', prefix, '1', name);
      assert.deepEqual(byDigest.words, ['EVALSHA', digest, '1', name]);
      assert.equal(byDigest.script, source);
    }
  }
  for (const name of ['EVAL', 'EVALSHA']) assert.throws(() => command(name, '0000', '0'), /another version/);
});

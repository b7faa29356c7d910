import assert from 'node:assert/strict';
import { test } from 'node:test';

import { REFUSALS } from '../testing/refusals.generated.js';
import { refusalError } from './engine-errors.js';
import { explained, isNotReady, meaningOf, refusesInfo } from './refusals.js';

test('a_servers_error_means_here_what_it_means_to_the_engine', () => {
  for (const [text, meaning, hidesInfo] of REFUSALS) {
    const here = meaningOf(text);
    // Drivers follow the redirections of a cluster, and learn about slots before the first lock. So the engine has no meaning for these.
    assert.equal(here === 'elsewhere' || here === 'cross-slot' ? 'server' : here, meaning, text);
    assert.equal(isNotReady(text), ['not-ready', 'interrupted', 'elsewhere'].includes(here), text);
    assert.equal(refusalError(text, 'job', undefined).code, meaning === 'auth' ? 'auth' : 'server', text);
    assert.equal(refusesInfo(text), hidesInfo, text);
  }
});

test('a_refusal_because_of_slots_is_known_by_the_words_of_a_server_or_a_proxy', () => {
  for (const text of ["CROSSSLOT Keys in request don't hash to the same slot", "ERR 'EVAL' command keys must in same slot"]) assert.equal(meaningOf(text), 'cross-slot');
});

test('what_a_proxy_says_while_its_server_is_down_reaches_the_engine_as_what_it_says_about_the_command', () => {
  const kinds = (texts: string[]): string[] => texts.map((text) => explained({ kind: 'refused', text }).kind);
  assert.deepEqual(kinds(['ERR Connection refused', 'ERR no server connection avaliable', 'no upstream host']), ['unavailable', 'unavailable', 'unavailable']);
  assert.deepEqual(kinds(['ERR unknown', 'ERR Connection timed out', 'ERR server connection close']), ['interrupted', 'interrupted', 'interrupted']);
  assert.deepEqual(kinds(["ERR unknown command 'EVAL'", 'LOADING Redis is loading', 'OOM command not allowed']), ['refused', 'refused', 'refused']);
});

test('a_server_without_enough_replicas_is_not_ready', () => {
  const meanings = REFUSALS.filter(([text]) => /\bNOREPLICAS\b/.test(text)).map(([, meaning]) => meaning);
  assert.deepEqual(new Set(meanings), new Set(['not-ready']));
});

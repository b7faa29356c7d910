import assert from 'node:assert/strict';
import { test } from 'node:test';

import { readAnswer } from './resp.js';

const read = (text: string): unknown => readAnswer(new TextEncoder().encode(text));

test('a_reply_is_read_and_the_messages_after_it', () => {
  assert.deepEqual(read('*4\r\n:-7\r\n$-1\r\n$4\r\na\r\n\n\r\n$2\r\nä\r\n$1\r\nc\r\n$0\r\n\r\n'), {
    result: { reply: [-7, null, 'a\r\n\n', 'ä'] }, messages: [{ channel: 'c', payload: '' }],
  });
  assert.deepEqual(read('*0\r\n'), { result: { reply: [] }, messages: [] });
  assert.deepEqual(read('-WRONGTYPE no\r\n'), { result: { failure: { kind: 'refused', text: 'WRONGTYPE no' } }, messages: [] });
});

import { spawn } from 'node:child_process';

/**
 * Looks after a child process: it never outlives this one, even if this one is killed.
 * Of a server the directory goes with it.
 */
export function watch(child, directory = '') {
  // The shell's standard input is a pipe whose other end only this process holds.
  const script = 'read -r _; kill -9 "$1"; [ -z "$2" ] || rm -rf -- "$2"';
  const watchdog = spawn('sh', ['-c', script, 'watchdog', `${child.pid}`, directory], {
    stdio: ['pipe', 'ignore', 'ignore'], detached: true,
  });
  watchdog.unref();
  watchdog.stdin.unref();
  child.unref();
  const ended = new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }));
    child.once('error', resolve);
  });
  // With the child gone, its number may soon be another's.
  ended.then(() => watchdog.kill('SIGKILL'));
  return {
    ended,
    pid: child.pid,
    pause: () => process.kill(child.pid, 'SIGSTOP'),
    resume: () => process.kill(child.pid, 'SIGCONT'),
    kill() {
      child.ref();
      child.kill('SIGKILL');
      return ended;
    },
  };
}

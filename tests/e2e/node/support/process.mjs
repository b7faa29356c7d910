import { spawn } from 'node:child_process';

/**
 * Makes sure that a child process never outlives this one, even if this one is killed. The directory, if there is one, is removed
 * with the child.
 */
export function watch(child, directory = '') {
  // Only this process holds the other end of the shell's standard input, so the shell notices when this process ends.
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
  // The watchdog must end with the child, because another process may soon get the child's id.
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

//! Deliberate bugs in the scripts of reentrant locks and semaphores.

use crate::injected_bugs::ScriptChange;

/// The same change in both semaphore scripts that grant.
macro_rules! permitting {
    ($find:expr, $put:expr) => {
        &[("semaphore-acquire", $find, $put), ("semaphore-release", $find, $put)]
    };
}

pub(super) const REENTRANT_FREES_ANY: &[ScriptChange] =
    &[("reentrant-release", "if holder ~= token then\n    return false", "if not holder then\n    return false")];
pub(super) const REENTRANT_ENTERS_BESIDE: &[ScriptChange] = &[(
    "reentrant-acquire",
    "local function compatible()\n  return not holder",
    "local function compatible()\n  return true",
)];
pub(super) const REENTRANT_UNPUBLISHED: &[ScriptChange] =
    &[("reentrant-release", "  redis.pcall('PUBLISH', channel, '0')\n", "")];
pub(super) const REENTRANT_COUNTS_ITS_NODE: &[ScriptChange] =
    &[("reentrant-acquire", "not string.find(KEYS[2], '{', 1, true) and ", "")];
pub(super) const LIMIT_IGNORED: &[ScriptChange] =
    permitting!("return used + wanted <= math.max(limit, wanted)", "return true");
pub(super) const EXPIRED_PERMITS_KEPT: &[ScriptChange] =
    permitting!("redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', text(now), 'LIMIT', '0', '100')", "{}");
pub(super) const ONE_PERMIT_RELEASED: &[ScriptChange] =
    permitting!("used = used - permits(redis.call('HGET', KEYS[5], token))", "used = used - 1");
pub(super) const SMALL_PASS_BIG: &[ScriptChange] =
    &[("semaphore-acquire", "if compatible(mode) and (mixed or not head()) then", "if compatible(mode) then")];
pub(super) const FIRST_LIMIT_STANDS: &[ScriptChange] = &[(
    "semaphore-acquire",
    "propose = function(mode)\n",
    "propose = function(mode)\n  if limit > 0 then\n    return\n  end\n",
)];
pub(super) const LIMIT_FORGOTTEN: &[ScriptChange] = permitting!("    if limit == 0 then\n", "    if false then\n");
pub(super) const PERMITS_WITHOUT_TTL: &[ScriptChange] = permitting!("    if ms > 0 then\n", "    if false then\n");
pub(super) const OTHER_KIND_TAKEN: &[ScriptChange] =
    &[("semaphore-acquire", "if members > 0 and not is_token(", "if false and not is_token(")];

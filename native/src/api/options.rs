//! The options of locks and managers as plain structs, for config files.

use std::time::Duration;

use leasehold_core::{Replicas, Wait};

use super::builder::Builder;
use super::lock::Lock;

/// Declares options that set those of a builder. A time names its form for serde.
macro_rules! options {
    ($(#[$meta:meta])* $name:ident sets $target:ty {
        $($(#[$doc:meta])* $field:ident: $type:ty $(as $with:literal)? $(, by $set:expr)?;)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default, deny_unknown_fields))]
        #[non_exhaustive]
        pub struct $name {
            $(
                $(#[$doc])*
                #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
                $(#[cfg_attr(feature = "serde", serde(with = $with))])?
                pub $field: Option<$type>,
            )+
        }

        impl $target {
            /// Sets the options that are not `None`, for example those from a config file. A later call can set each of them again.
            pub fn options(self, options: &$name) -> Self {
                let mut to = self;
                $(if let Some(value) = options.$field.clone() {
                    to = options!(@set to, value, $field $(, $set)?);
                })+
                to
            }
        }
    };
    (@set $to:ident, $value:ident, $field:ident) => { $to.$field($value) };
    (@set $to:ident, $value:ident, $field:ident, $set:expr) => { $set($to, $value) };
}

options! {
    /// The options of a lock: see [`Lock::options`]. An option that is `None` changes nothing.
    ///
    /// With the feature `serde`, you can read them from a config file. A time is a text with a unit: `"500ms"`, `"30s"`,
    /// `"1h 30m"`. `wait` is a time, `"forever"` or `"no"`. An unknown name is an error.
    ///
    /// ```
    /// # #[cfg(feature = "serde")] {
    /// use leasehold::{LockOptions, Wait};
    ///
    /// let text = r#"{ "ttl": "10s", "wait": "forever", "wait_for_replicas": { "min": 1, "timeout": "500ms" } }"#;
    /// let options: LockOptions = serde_json::from_str(text).unwrap();
    /// assert_eq!(options.wait, Some(Wait::Forever));
    /// # }
    /// # fn f(locks: leasehold::LockManager, options: leasehold::LockOptions) {
    /// let nightly = locks.mutex("nightly-report").options(&options);
    /// # }
    /// ```
    LockOptions sets Lock {
        /// See [`Lock::ttl`].
        ttl: Duration as "leasehold_core::serial::optional_duration";
        /// See [`Lock::renew`].
        renew: bool;
        /// See [`Lock::max_hold`].
        max_hold: Duration as "leasehold_core::serial::optional_duration";
        /// See [`Lock::wait`].
        wait: Wait;
        /// See [`Lock::linger`].
        linger: Duration as "leasehold_core::serial::optional_duration";
        /// See [`Lock::at_least`].
        at_least: Duration as "leasehold_core::serial::optional_duration";
        /// See [`Lock::label`].
        label: String;
        /// See [`Lock::wait_for_replicas`].
        wait_for_replicas: Replicas, by |lock: Lock, Replicas { min, timeout }| lock.wait_for_replicas(min, timeout);
        /// See [`Lock::one_script`].
        one_script: bool, by |lock: Lock, only| if only { lock.one_script() } else { lock };
    }
}

options! {
    /// The options of a manager: see [`Builder::options`]. An option that is `None` changes nothing.
    ///
    /// Addresses, credentials and certificates are not among them. In a config file, the values have the same form as those of
    /// [`LockOptions`].
    ///
    /// ```
    /// # #[cfg(feature = "serde")] {
    /// use leasehold::{LockManager, ManagerOptions};
    ///
    /// let options: ManagerOptions = serde_json::from_str(r#"{ "prefix": "billing:", "ttl": "10s" }"#).unwrap();
    /// let builder = LockManager::builder().options(&options);
    /// # }
    /// ```
    ManagerOptions sets Builder {
        /// See [`Builder::prefix`].
        prefix: String;
        /// See [`Builder::local_handoffs`].
        local_handoffs: u32;
        /// See [`Builder::claim_window`].
        claim_window: Duration as "leasehold_core::serial::optional_duration";
        /// See [`Builder::response_timeout`].
        response_timeout: Duration as "leasehold_core::serial::optional_duration";
        /// See [`Builder::node_timeout`].
        node_timeout: Duration as "leasehold_core::serial::optional_duration";
        /// See [`Builder::mixed_fleet`].
        mixed_fleet: bool;
        /// See [`Builder::label`].
        label: String;
        /// See [`Builder::ttl`].
        ttl: Duration as "leasehold_core::serial::optional_duration";
        /// See [`Builder::wait`].
        wait: Wait;
        /// See [`Builder::linger`].
        linger: Duration as "leasehold_core::serial::optional_duration";
        /// See [`Builder::check_eviction`].
        check_eviction: bool;
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use leasehold_core::{LOCK_SETTINGS, MANAGER_SETTINGS, Setting};

    use super::*;

    /// The names that a struct takes.
    fn taken(refusal: serde_json::Error) -> Vec<String> {
        let text = refusal.to_string();
        text.split('`').skip(3).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn a_config_file_can_have_every_option_of_the_table() {
        let lock = taken(serde_json::from_str::<LockOptions>(r#"{ "other": 1 }"#).unwrap_err());
        let manager = taken(serde_json::from_str::<ManagerOptions>(r#"{ "other": 1 }"#).unwrap_err());
        // Arguments of a call, an option for Workers, and what the builder has not.
        let elsewhere = ["limit", "permits", "wasm"];
        let missing = |taken: &[String], setting: &Setting| !taken.iter().any(|name| name == setting.name);
        for setting in LOCK_SETTINGS.iter().chain(MANAGER_SETTINGS).filter(|it| !elsewhere.contains(&it.name)) {
            let of_lock = LOCK_SETTINGS.iter().any(|it| it.name == setting.name);
            let of_manager = setting.places.iter().any(|place| matches!(*place, "manager" | "quorum"));
            let on_builder = !matches!(setting.name, "renew" | "max_hold");
            assert!(!(of_lock && missing(&lock, setting)), "{} is missing in {lock:?}", setting.name);
            assert!(!(of_manager && on_builder && missing(&manager, setting)), "{} is missing", setting.name);
        }
    }

    #[test]
    fn options_are_written_as_they_were_read() {
        let text = r#"{"ttl":"10s","renew":true,"max_hold":"1h","wait":"no","linger":"50ms","at_least":"1m","label":"report","wait_for_replicas":{"min":2,"timeout":"1s"},"one_script":true}"#;
        let options: LockOptions = serde_json::from_str(text).unwrap();
        assert_eq!(options.ttl, Some(Duration::from_secs(10)));
        assert_eq!(serde_json::to_string(&options).unwrap(), text);
        assert_eq!(serde_json::to_string(&LockOptions::default()).unwrap(), "{}");
    }
}

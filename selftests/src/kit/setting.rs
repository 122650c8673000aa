// SPDX-License-Identifier: GPL-2.0

//! Settings of the kernel, in /proc/sys and /sys.

use std::fs;
use std::path::Path;

/// A setting that has another value until this is dropped.
pub struct Setting {
    path: &'static str,
    before: String,
}

impl Setting {
    #[track_caller]
    pub fn new(path: &'static str, value: &str) -> Setting {
        let before = fs::read_to_string(path).expect(path);
        fs::write(path, value).expect(path);
        Setting { path, before }
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = fs::write(self.path, self.before.trim_end());
    }
}

/// Lets tasks sleep for long without a report of a hung task, until the result is dropped. Not
/// every kernel has the setting.
pub fn allow_long_sleep() -> Option<Setting> {
    const PATH: &str = "/proc/sys/kernel/hung_task_timeout_secs";
    Path::new(PATH).exists().then(|| Setting::new(PATH, "0"))
}

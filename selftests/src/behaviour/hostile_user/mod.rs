// SPDX-License-Identifier: GPL-2.0

//! An ordinary user with access to `user_events_data` attacks the machine. The attempts, what stops
//! them, and the tests of that:
//!
//! - exhaust memory: all of it is charged to the user's control group (`cgroup::*`)
//! - fill the event table: there is a limit, above which existing events go on; the listing of
//!   registrations shows the process, and its events end with it (`contract::max::*`,
//!   `registrations::of_several_processes_each_together`, `contract::lifetime::*`)
//! - flood the log: the module logs nothing that a user can cause
//!   (`unprivileged::better_than_c_10_no_error_is_logged`)
//! - hold locks: arguments and payloads are copied with only the process's own lock held; its pages
//!   are only tried (`arguments_that_never_come_hold_up_no_other`, `hostile::*`, `userfaultfd::*`)
//! - forge listings: names have no byte that ends a word or a line; command names are escaped
//!   (`forges_no_line_of_a_listing`, `registrations::a_command_name_is_one_word`)
//! - make root's tools misread formats: ambiguous descriptions are refused (`contract::fields::*`,
//!   `tools::types::*`)
//! - reach kernel addresses: the word must be the process's own memory, all data is copied and its
//!   locations are checked (`reaches_no_kernel_address`, `contract::locations::*`)
//! - pin pages of others: a page is written only if the process itself could write it, and is
//!   pinned only for that moment (`writes_and_pins_no_page_of_others`, `page_kinds::*`,
//!   `huge_pages::*`; after each test no page may be pinned)
//! - reach another group of events: an open file belongs to one group, and so does all that is done
//!   by it (`reaches_nothing_of_other_groups`, `groups::apart::*`)
//! - use up what other groups have: each group has limits of its own (`groups::limits::*`,
//!   `groups::rate::*`)
//! - spoil a recording of others: a group takes only names that all tools read (`groups::names::*`,
//!   `tools::names::a_tenant_spoils_no_recording`)
//! - take the place of another group's event: no name of a group ends like the systems of formats
//!   (`groups::control::lines_that_are_einval`, `groups::names` of the schema)
//! - race setuid exec: registrations end with the address space, before the new program has one
//!   (`writes_nothing_into_a_program_with_roots_rights`, `exec::*`)

mod addresses;
mod groups;
mod setuid;
mod texts;
mod waits;

use crate::harness::tests;
use crate::kit::userfault;
use addresses::{reaches_no_kernel_address, writes_and_pins_no_page_of_others};
use groups::reaches_nothing_of_other_groups;
use setuid::writes_nothing_into_a_program_with_roots_rights;
use texts::forges_no_line_of_a_listing;
use waits::arguments_that_never_come_hold_up_no_other;

tests!("hostile_user":
    arguments_that_never_come_hold_up_no_other.needs_path(userfault::PATH),
    forges_no_line_of_a_listing,
    reaches_no_kernel_address,
    writes_and_pins_no_page_of_others,
    reaches_nothing_of_other_groups,
    writes_nothing_into_a_program_with_roots_rights.limit(300),
);

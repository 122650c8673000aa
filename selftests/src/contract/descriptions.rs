// SPDX-License-Identifier: GPL-2.0

//! "Event descriptions": accepted and refused names and fields.

use super::check::{expect, Check, Row, TEXT};
use super::formats::id_of;
use crate::kit::abi::{Data, MULTI_FORMAT};
use crate::kit::dynamic;
use crate::kit::errno::{Errno, Result};
use crate::kit::event::Event;
use crate::kit::memory::Mapping;
use crate::kit::tracefs::{count_of_events, formats_of};

const NAME: Row = Row::new(
    "names",
    "NAME[ FIELD[;FIELD…]]: the name ends at the first space; 1 to 255 bytes",
);
const FLAGS: Row = Row::new(
    "names",
    "a : in the name introduces flags, of which none is supported → EINVAL",
);
const BAD_NAME: Row = Row::better_than_c(
    3,
    "names",
    "names: 1 to 255 bytes (multi-format: with its suffix), no byte ≤ 0x20 or 0x7f, no /, not ., .., \
     enable, filter, else EINVAL",
    "got Ok(0)",
);
const EMPTY: Row = Row::new(
    "fields",
    "Empty fields (;;, trailing ;) are skipped; leading spaces of a field are skipped",
);
const SYNTAX: Row = Row::new(
    "fields",
    "A field is TYPE NAME, for struct TAG also a size (decimal). Two spaces between type and name, a \
     trailing space, a tab, or a third word elsewhere → EINVAL",
);
const TYPE: Row = Row::new(
    "fields",
    "Anything else (long, bool, size_t, float, pointers, …) → EINVAL; arrays of 1 to 1024",
);
const FIELD_NAME: Row = Row::better_than_c(
    6,
    "fields",
    "field names: duplicates, common_pid, newlines, \", %, a[20], *p; char[4][4] → EINVAL",
    "got Ok(0)",
);
const MISREAD: Row = Row::better_than_c(
    6,
    "fields",
    "struct tags and types of locations with __data_loc, __rel_loc or cpumask_t in them, control bytes, \
     \", %, \\, [, ] or * → EINVAL",
    "got Ok(0)",
);
const MAX_FIXED_PART: Row = Row::new("fields", "a fixed part that a buffer can hold is taken");
const TOO_LARGE: Row = Row::better_than_c(
    7,
    "fields",
    "a fixed part that no buffer can ever hold → E2BIG",
    "got Ok(0)",
);

pub fn checks() -> Vec<Vec<Check>> {
    vec![
        NAME.all(
            taken,
            (),
            &[
                ("one_letter_is_taken", "x"),
                ("digits_are_taken", "4711"),
                ("dots_inside_are_taken", "st.a.b"),
                ("three_dots_are_taken", "..."),
                ("dashes_are_taken", "-st-a"),
                ("punctuation_is_taken", "st,a=b(c)!"),
                ("bytes_of_utf_8_are_taken", "st_größe"),
                ("the_name_of_the_group_is_taken", "user_events"),
            ],
        ),
        NAME.cases(
            long_name,
            &[
                ("254_bytes_are_taken", (254, 0), Ok(0)),
                ("255_bytes_are_taken", (255, 0), Ok(0)),
                ("240_bytes_of_a_format_are_taken", (240, 2), Ok(0)),
            ],
        ),
        BAD_NAME.cases(
            long_name,
            &[
                ("256_bytes_are_einval", (256, 0), Err(Errno::EINVAL)),
                ("400_bytes_are_einval", (400, 0), Err(Errno::EINVAL)),
                (
                    "255_bytes_of_a_format_are_einval",
                    (255, 2),
                    Err(Errno::EINVAL),
                ),
                (
                    "254_bytes_of_a_format_are_einval",
                    (254, 2),
                    Err(Errno::EINVAL),
                ),
            ],
        ),
        BAD_NAME.scenarios(&[(
            "the_suffix_of_a_format_counts_for_its_255_bytes",
            longest_with_suffix,
        )]),
        FLAGS.all(
            refused,
            Errno::EINVAL,
            &[
                ("a_flag_is_einval", "st_conform:flag u32 a"),
                ("an_empty_flag_is_einval", "st_conform: u32 a"),
                ("a_flag_without_a_name_is_einval", ":flag u32 a"),
                ("a_flag_without_fields_is_einval", "st_conform:flag"),
                ("two_flags_are_einval", "st_conform:one,two"),
            ],
        ),
        BAD_NAME.all(
            refused,
            Errno::EINVAL,
            &[
                ("an_empty_name_is_einval", " u32 a"),
                ("nothing_is_einval", ""),
                ("dot_is_einval", ". u32 a"),
                ("dot_dot_is_einval", ".. u32 a"),
                ("enable_is_einval", "enable u32 a"),
                ("filter_is_einval", "filter u32 a"),
                ("a_slash_is_einval", "st_a/b u32 a"),
                ("a_slash_in_front_is_einval", "/st_b u32 a"),
                ("a_way_up_is_einval", "../st_b u32 a"),
                ("a_tab_is_einval", "st_a\tb u32 a"),
                ("a_newline_is_einval", "st_a\nb u32 a"),
                ("a_forged_status_line_is_einval", "st_a\nst_b"),
                ("a_carriage_return_is_einval", "st_a\rb u32 a"),
                ("byte_1_is_einval", "st_a\x01 u32 a"),
                ("byte_31_is_einval", "st_a\x1fb u32 a"),
                ("byte_127_is_einval", "st_a\x7fb u32 a"),
                ("a_hash_sign_is_einval", "st_a#b u32 a"),
                ("a_hash_sign_in_front_is_einval", "#st_a u32 a"),
            ],
        ),
        EMPTY.cases(
            shown,
            &[
                (
                    "a_semicolon_at_the_end_is_skipped",
                    "st_conform u32 a;",
                    "u:st_conform u32 a",
                ),
                (
                    "many_semicolons_at_the_end_are_skipped",
                    "st_conform u32 a;;;;",
                    "u:st_conform u32 a",
                ),
                (
                    "a_semicolon_in_front_is_skipped",
                    "st_conform ;u32 a",
                    "u:st_conform u32 a",
                ),
                (
                    "two_semicolons_are_skipped",
                    "st_conform u32 a;;u8 b",
                    "u:st_conform u32 a; u8 b",
                ),
                (
                    "semicolons_and_spaces_are_skipped",
                    "st_conform u32 a; ; ;  u8 b",
                    "u:st_conform u32 a; u8 b",
                ),
                (
                    "semicolons_alone_are_no_fields",
                    "st_conform ;;;",
                    "u:st_conform",
                ),
                (
                    "spaces_in_front_of_a_field_are_skipped",
                    "st_conform    u32 a;   u8 b",
                    "u:st_conform u32 a; u8 b",
                ),
                (
                    "white_space_in_front_of_a_field_is_skipped",
                    "st_conform \t u32 a;\t\n u8 b",
                    "u:st_conform u32 a; u8 b",
                ),
                (
                    "a_space_and_no_fields_are_no_fields",
                    "st_conform ",
                    "u:st_conform",
                ),
                (
                    "spaces_alone_are_no_fields",
                    "st_conform    ",
                    "u:st_conform",
                ),
            ],
        ),
        SYNTAX.all(
            refused,
            Errno::EINVAL,
            &[
                ("a_type_without_a_name_is_einval", "st_conform u32"),
                ("a_name_without_a_type_is_einval", "st_conform a"),
                ("two_spaces_before_the_name_are_einval", "st_conform u32  a"),
                (
                    "two_spaces_inside_a_type_are_einval",
                    "st_conform unsigned  int a",
                ),
                (
                    "two_spaces_after_struct_are_einval",
                    "st_conform struct  p p 16",
                ),
                (
                    "two_spaces_before_a_struct_name_are_einval",
                    "st_conform struct p  p 16",
                ),
                (
                    "two_spaces_before_a_size_are_einval",
                    "st_conform struct p p  16",
                ),
                ("a_space_behind_is_einval", "st_conform u32 a "),
                (
                    "a_space_before_the_semicolon_is_einval",
                    "st_conform u32 a ;u8 b",
                ),
                (
                    "a_space_behind_a_size_is_einval",
                    "st_conform struct p p 16 ",
                ),
                ("a_tab_before_the_name_is_einval", "st_conform u32\ta"),
                ("a_third_word_is_einval", "st_conform u32 a b"),
                ("a_size_of_a_number_is_einval", "st_conform u32 a 4"),
                ("a_size_of_an_array_is_einval", "st_conform char[8] a 8"),
                (
                    "a_size_of_a_location_is_einval",
                    "st_conform __rel_loc char[] a 4",
                ),
                (
                    "a_fourth_word_of_a_struct_is_einval",
                    "st_conform struct p p 16 4",
                ),
                (
                    "a_bad_field_after_a_good_one_is_einval",
                    "st_conform u32 a; u8",
                ),
                (
                    "a_bad_field_before_a_good_one_is_einval",
                    "st_conform u8; u32 a",
                ),
                ("a_comma_between_fields_is_einval", "st_conform u32 a, u8 b"),
            ],
        ),
        SYNTAX.all(
            refused,
            Errno::EINVAL,
            &[
                ("a_struct_without_a_size_is_einval", "st_conform struct p p"),
                ("a_struct_without_a_tag_is_einval", "st_conform struct p 16"),
                ("a_struct_alone_is_einval", "st_conform struct p"),
                ("a_struct_of_size_0_is_einval", "st_conform struct p p 0"),
                (
                    "a_struct_of_a_hexadecimal_size_is_einval",
                    "st_conform struct p p 0x10",
                ),
                (
                    "a_struct_of_a_negative_size_is_einval",
                    "st_conform struct p p -1",
                ),
                (
                    "a_struct_of_a_size_in_letters_is_einval",
                    "st_conform struct p p x",
                ),
                (
                    "a_location_without_a_type_is_einval",
                    "st_conform __rel_loc a",
                ),
                (
                    "a_location_without_a_name_is_einval",
                    "st_conform __data_loc char[]",
                ),
                ("unsigned_alone_is_einval", "st_conform unsigned a"),
            ],
        ),
        TYPE.all(
            refused,
            Errno::EINVAL,
            &[
                ("long_is_einval", "st_conform long a"),
                ("unsigned_long_is_einval", "st_conform unsigned long a"),
                ("long_long_is_einval", "st_conform long long a"),
                ("bool_is_einval", "st_conform bool a"),
                ("size_t_is_einval", "st_conform size_t a"),
                ("pid_t_is_einval", "st_conform pid_t a"),
                ("float_is_einval", "st_conform float a"),
                ("double_is_einval", "st_conform double a"),
                ("u128_is_einval", "st_conform u128 a"),
                ("uint32_t_is_einval", "st_conform uint32_t a"),
                ("upper_case_is_einval", "st_conform U32 a"),
                ("signed_int_is_einval", "st_conform signed int a"),
                ("unsigned_u32_is_einval", "st_conform unsigned u32 a"),
                ("a_pointer_is_einval", "st_conform void* a"),
                ("a_pointer_to_char_is_einval", "st_conform char* a"),
                ("const_is_einval", "st_conform const char a"),
                ("an_array_of_numbers_is_einval", "st_conform u32[4] a"),
                ("an_array_without_a_length_is_einval", "st_conform char[] a"),
                ("an_array_of_0_is_einval", "st_conform char[0] a"),
                (
                    "an_array_of_hexadecimal_0_is_einval",
                    "st_conform char[0x0] a",
                ),
                ("an_array_of_minus_1_is_einval", "st_conform char[-1] a"),
                ("an_array_of_1025_is_einval", "st_conform char[1025] a"),
                (
                    "an_array_of_hexadecimal_1025_is_einval",
                    "st_conform char[0x401] a",
                ),
                (
                    "an_array_of_a_million_is_einval",
                    "st_conform char[1000000] a",
                ),
                (
                    "an_array_of_7_digits_is_einval",
                    "st_conform char[0000010] a",
                ),
                ("an_array_of_a_word_is_einval", "st_conform char[x] a"),
                ("an_array_of_bad_octal_is_einval", "st_conform char[08] a"),
                ("an_array_of_bare_0x_is_einval", "st_conform char[0x] a"),
                ("an_array_with_a_space_is_einval", "st_conform char[ 4] a"),
                ("an_array_left_open_is_einval", "st_conform char[4 a"),
                (
                    "unsigned_array_of_1025_is_einval",
                    "st_conform unsigned char[1025] a",
                ),
                (
                    "an_array_of_short_is_einval",
                    "st_conform unsigned short[4] a",
                ),
            ],
        ),
        FIELD_NAME.all(
            refused,
            Errno::EINVAL,
            &[
                ("the_same_name_twice_is_einval", "st_conform u32 a; u64 a"),
                (
                    "the_same_field_twice_is_einval",
                    "st_conform u32 a; u8 b; u32 a",
                ),
                (
                    "the_same_name_of_a_struct_is_einval",
                    "st_conform u32 a; struct p a 4",
                ),
                ("no_name_behind_a_space_is_einval", "st_conform u32 "),
                ("no_name_before_a_size_is_einval", "st_conform struct p  16"),
                ("common_type_is_einval", "st_conform u16 common_type"),
                ("common_flags_is_einval", "st_conform u8 common_flags"),
                (
                    "common_preempt_count_is_einval",
                    "st_conform u8 common_preempt_count",
                ),
                ("common_pid_is_einval", "st_conform u32 common_pid"),
                ("common_cpu_is_einval", "st_conform u32 common_cpu"),
                ("common_comm_is_einval", "st_conform char[16] common_comm"),
                (
                    "common_timestamp_is_einval",
                    "st_conform u64 common_timestamp",
                ),
                (
                    "common_stacktrace_is_einval",
                    "st_conform __rel_loc u64[] common_stacktrace",
                ),
                ("a_newline_in_a_name_is_einval", "st_conform u32 a\nb"),
                ("a_quote_in_a_name_is_einval", "st_conform u32 a\"b"),
                ("a_percent_in_a_name_is_einval", "st_conform u32 a%d"),
                ("a_hash_sign_in_a_name_is_einval", "st_conform u32 a#b"),
                (
                    "a_hash_sign_in_a_tag_is_einval",
                    "st_conform struct x#y p 8",
                ),
                ("an_array_as_in_c_is_einval", "st_conform char a[20]"),
                ("a_pointer_as_in_c_is_einval", "st_conform char *p"),
                (
                    "a_pointer_to_a_number_as_in_c_is_einval",
                    "st_conform u32 *p",
                ),
                ("an_array_of_arrays_is_einval", "st_conform char[4][4] a"),
            ],
        ),
        MISREAD.all(
            refused,
            Errno::EINVAL,
            &[
                (
                    "a_tag_with_data_loc_is_einval",
                    "st_conform struct x__data_loc p 8",
                ),
                (
                    "a_tag_with_rel_loc_is_einval",
                    "st_conform struct x__rel_loc p 8",
                ),
                (
                    "a_tag_with_cpumask_t_is_einval",
                    "st_conform struct cpumask_t p 8",
                ),
                ("a_tag_with_a_star_is_einval", "st_conform struct x* p 8"),
                (
                    "a_tag_with_a_bracket_is_einval",
                    "st_conform struct char[4] p 8",
                ),
                ("a_tag_with_a_quote_is_einval", "st_conform struct x\" p 8"),
                (
                    "a_tag_with_a_newline_is_einval",
                    "st_conform struct x\ny p 8",
                ),
                (
                    "a_location_of_cpumask_t_is_einval",
                    "st_conform __data_loc cpumask_t[] a",
                ),
                (
                    "a_location_of_a_location_is_einval",
                    "st_conform __rel_loc x__data_loc_char[] a",
                ),
                (
                    "a_data_loc_of_rel_loc_is_einval",
                    "st_conform __data_loc x__rel_loc[] a",
                ),
                (
                    "a_location_of_pointers_is_einval",
                    "st_conform __rel_loc char*[] a",
                ),
                (
                    "a_location_of_arrays_is_einval",
                    "st_conform __data_loc u8[4][] a",
                ),
            ],
        ),
        MAX_FIXED_PART.cases(
            shown,
            &[
                (
                    "a_struct_of_524256_bytes_is_taken",
                    "st_conform struct p p 524256",
                    "u:st_conform struct p p 524256",
                ),
                (
                    "fields_of_524256_bytes_are_taken",
                    "st_conform struct p p 524252; u32 a",
                    "u:st_conform struct p p 524252; u32 a",
                ),
            ],
        ),
        TOO_LARGE.all(
            refused,
            Errno::E2BIG,
            &[
                (
                    "a_struct_of_524257_bytes_is_e2big",
                    "st_conform struct p p 524257",
                ),
                (
                    "fields_of_524257_bytes_are_e2big",
                    "st_conform struct p p 524253; u32 a",
                ),
                (
                    "a_struct_of_half_a_megabyte_is_e2big",
                    "st_conform struct p p 524288",
                ),
                (
                    "a_struct_of_a_megabyte_is_e2big",
                    "st_conform struct p p 1048576",
                ),
                (
                    "a_struct_of_the_largest_int_is_e2big",
                    "st_conform struct p p 2147483647",
                ),
                (
                    "two_structs_together_are_e2big",
                    "st_conform struct p p 300000; struct q q 300000",
                ),
            ],
        ),
        // C returns the size as an errno.
        TOO_LARGE.on_c("got Err(error -2147483648)").all(
            refused,
            Errno::E2BIG,
            &[(
                "a_struct_of_two_gigabytes_is_e2big",
                "st_conform struct p p 2147483648",
            )],
        ),
        TOO_LARGE.on_c("got Err(EPERM)").all(
            refused,
            Errno::E2BIG,
            &[(
                "a_struct_of_the_largest_u32_is_e2big",
                "st_conform struct p p 4294967295",
            )],
        ),
        // C does not parse numbers of more than 32 bits.
        TOO_LARGE.on_c("got Err(EINVAL)").all(
            refused,
            Errno::E2BIG,
            &[
                (
                    "a_struct_of_four_bytes_more_than_u32_is_e2big",
                    "st_conform struct p p 4294967300",
                ),
                (
                    "a_struct_of_four_bytes_more_than_u64_is_e2big",
                    "st_conform struct p p 18446744073709551620",
                ),
            ],
        ),
        TOO_LARGE.on_c("got Err(ENXIO)").all(
            refused,
            Errno::E2BIG,
            &[(
                "structs_past_u32_are_e2big",
                "st_conform struct p p 4294967290; struct q q 20",
            )],
        ),
    ]
}

fn taken(name: &str, (): ()) {
    let _event = Event::new(&format!("{name} u32 a"));
    expect(dynamic::user_lines(), vec![format!("u:{name} u32 a")]);
}

fn refused(text: &str, want: Errno) {
    let (data, page) = (Data::open(), Mapping::kept(1));
    expect(data.register_text(text, page.address(), 0), Err(want));
    expect(count_of_events(), 0);
    // The name must still be free.
    expect(data.register_text(TEXT, page.address(), 0), Ok(0));
}

fn long_name((length, flags): (usize, u16), want: Result<u32>) {
    let (data, page) = (Data::open(), Mapping::kept(1));
    let text = format!("st_{} u32 a", "x".repeat(length - 3));
    let got = data.register_flags(&text, page.address(), 0, flags);
    expect(got, want);
}

fn longest_with_suffix() {
    let (data, page) = (Data::open(), Mapping::kept(1));
    let name = |length: usize| format!("st_{}", "x".repeat(length - 3));
    let register = |name: &str| data.register_flags(name, page.address(), 0, MULTI_FORMAT);
    expect(register(&name(300)), Err(Errno::EINVAL));
    expect(register("st_next"), Ok(0));
    expect(data.unregister_bit(page.address(), 0), Ok(()));
    // The suffix of the next format.
    let id = id_of(&formats_of("st_next")[0]) + 1;
    let length = 255 - format!(".{id:x}").len();
    expect(register(&name(length + 1)), Err(Errno::EINVAL));
    expect(register(&name(length)), Ok(1));
    expect(formats_of(&name(length)).len(), 1);
}

fn shown(text: &str, want: &str) {
    let (data, page) = (Data::open(), Mapping::kept(1));
    expect(data.register_text(text, page.address(), 0), Ok(0));
    expect(dynamic::user_lines(), vec![want.to_string()]);
}

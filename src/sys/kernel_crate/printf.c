// SPDX-License-Identifier: GPL-2.0
/*
 * "%pA", the format of Rust's arguments, where Rust is linked into the module: a kernel without
 * Rust does not know the format, and the arguments of another rustc have another layout. The Rust
 * of the module makes the text. ld puts these functions in the place of the kernel's, see Kbuild.
 */

#include <linux/minmax.h>
#include <linux/printk.h>
#include <linux/seq_file.h>
#include <linux/stdarg.h>
#include <linux/string.h>

/* In the kernel crate, rust/kernel/print.rs. Returns where all of the text would end. */
char *rust_fmt_argument(char *buf, char *end, const void *arguments);

/* The kernel crate's formats are KERN_* and "%s: %pA", and KERN_CONT and "%pA". */
int __wrap__printk(const char *format, ...)
{
	/* What is longer is cut off. */
	char text[240];
	const char *prefix;
	va_list args;
	size_t len;
	int ret;

	va_start(args, format);
	if (strstr(format, "%pA")) {
		prefix = strstr(format, "%s: ") ? va_arg(args, const char *) : NULL;
		len = rust_fmt_argument(text, text + sizeof(text), va_arg(args, void *)) - text;
		ret = _printk("%.*s%s%s%.*s", (int)(printk_skip_level(format) - format), format,
			      prefix ?: "", prefix ? ": " : "", (int)min(len, sizeof(text)), text);
	} else {
		ret = vprintk(format, args);
	}
	va_end(args);
	return ret;
}

void __wrap_seq_printf(struct seq_file *m, const char *format, ...)
{
	size_t size, len;
	va_list args;
	char *buf;

	va_start(args, format);
	if (strcmp(format, "%pA")) {
		seq_vprintf(m, format, args);
	} else {
		size = seq_get_buf(m, &buf);
		len = rust_fmt_argument(buf, buf + size, va_arg(args, void *)) - buf;
		seq_commit(m, len < size ? len : -1);
	}
	va_end(args);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * The event "requests" in C++20, with nothing but the standard library and system calls. The event
 * is registered as long as an object lives. request_event.c compiles as C++, too.
 */
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/user_events.h>

class RequestEvent {
public:
	RequestEvent()
	{
		user_reg reg = {};

		reg.size = sizeof(reg);
		reg.enable_size = sizeof(word);
		reg.enable_addr = reinterpret_cast<std::uintptr_t>(&word);
		reg.name_args = reinterpret_cast<std::uintptr_t>(
			"requests u64 ns; u32 status; __data_loc char[] path");
		file = open("/sys/kernel/tracing/user_events_data", O_WRONLY | O_CLOEXEC);
		if (file < 0 || ioctl(file, DIAG_IOCSREG, &reg) < 0)
			error = std::error_code(errno, std::generic_category());
		index = reg.write_index;
	}

	/* The kernel writes to the word: it must neither move nor be freed while registered. */
	RequestEvent(const RequestEvent &) = delete;
	RequestEvent &operator=(const RequestEvent &) = delete;
	~RequestEvent()
	{
		user_unreg unreg = {};

		unreg.size = sizeof(unreg);
		unreg.disable_addr = reinterpret_cast<std::uintptr_t>(&word);
		if (!error)
			ioctl(file, DIAG_IOCSUNREG, &unreg);
		if (file >= 0)
			close(file);
	}

	/* Returns whether a consumer is attached, by one load and one test. */
	bool enabled()
	{
		return std::atomic_ref(word).load(std::memory_order_relaxed) & 1;
	}

	/* One system call, from any thread. */
	bool write(std::chrono::nanoseconds took, std::uint32_t status, std::string_view path) const
	{
		/* Without padding, as in a record: the widest field comes first. */
		struct {
			std::uint64_t ns;
			std::uint32_t status, path;
		} fields;
		static_assert(sizeof(fields) == 16);
		const char nul = 0;

		path = path.substr(0, 255);
		fields.ns = took.count();
		fields.status = status;
		/* The offset counts from the record's start, with 8 bytes of common fields. */
		fields.path = DYN_LOC(8 + sizeof(fields), path.size() + 1);
		const iovec parts[] = {
			{ const_cast<std::uint32_t *>(&index), sizeof(index) },
			{ &fields, sizeof(fields) },
			{ const_cast<char *>(path.data()), path.size() },
			{ const_cast<char *>(&nul), 1 },
		};
		return writev(file, parts, std::size(parts)) >= 0;
	}

	std::error_code error;

private:
	std::uint32_t word = 0;
	std::uint32_t index;
	int file;
};

int main(int argc, char **argv)
{
	using namespace std::chrono;
	static RequestEvent event;
	const auto end = steady_clock::now() + seconds(argc > 1 ? std::atoi(argv[1]) : 5);

	if (event.error)
		std::cout << "requests-cpp: serving untraced: " << event.error.message()
			  << "; 'user-events doctor' shows the cause" << std::endl;
	else
		std::cout << "requests-cpp: registered the event user_events:requests" << std::endl;
	for (int number = 0; steady_clock::now() < end; number++) {
		const auto start = steady_clock::now();

		/* Here a request is served. */
		std::this_thread::sleep_for(milliseconds(10));
		if (event.enabled())
			event.write(steady_clock::now() - start, number % 5 == 4 ? 404 : 200,
				    number % 2 ? "/index.html" : "/about");
	}
}

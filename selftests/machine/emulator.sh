# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# How the emulator is started, inside the root: fills the array EMULATOR. Sourced there.
#   CPUS=N    how many processors the machine has (2)
#   NODES=N   how many nodes, each with its share of processors, in a socket of their own, and memory (1)

# All the guest needs of udev are the named ports to the host. Without the other rules it neither looks
# for drivers for every device nor waits for them, which is most of the time of an emulated start.
mount -t tmpfs tmpfs /usr/lib/udev/rules.d
cat >/usr/lib/udev/rules.d/50-ports.rules <<'END'
SUBSYSTEM=="virtio", ENV{MODALIAS}=="?*", RUN{builtin}+="kmod load"
SUBSYSTEM=="virtio-ports", ATTR{name}=="?*", SYMLINK+="virtio-ports/$attr{name}"
END
# Nor need all other devices be announced to it, hundreds of them. One program is udevd and udevadm.
cp /usr/bin/udevadm /usr/lib/udev/rules.d/udevadm
mount --bind /src/selftests/machine/guest-udevadm /usr/bin/udevadm

version=$(cat /kernel/version)
EMULATOR=(vng --run "/usr/lib/modules/$version/vmlinuz.unsigned"
	--user root --cpus "${CPUS:-2},sockets=${NODES:-1}" --memory 2G --cwd /build --rwdir /build
	--force-9p --disable-microvm
	--append log_buf_len=16M)
# A directory of the root for the tests of 9p, and memory that the kernel takes for a device, for those of DAX.
mkdir -p /tmp/tests
EMULATOR+=(--qemu-opts="-virtfs local,path=/tmp/tests,mount_tag=tests,security_model=none"
	--append "memmap=16M!1G")
cpus=$((${CPUS:-2} / ${NODES:-1})) node=0
while ((${NODES:-1} > 1 && node < NODES)); do
	EMULATOR+=(--numa "$((2048 / NODES))M,cpus=$((node * cpus))-$((node * cpus + cpus - 1))")
	node=$((node + 1))
done
# On a busy host the emulated HPET can begin to tick without end: the guest then does nothing but take ticks,
# or its clock runs so fast that whatever waits in it gives up. Nothing needs it.
# When the kernel starts it waits for ten ticks to see that its timer works, and panics if the host does something
# else for so long that they do not come. It does work.
[[ -n ${KVM:-} ]] || EMULATOR+=(--disable-kvm --qemu-opts="-machine hpet=off" --append no_timer_check)
# The debug kernels need room for their notes, have more to say than their first word, and are slow.
if [[ $version == *-debug || $version == *-kcsan ]]; then
	EMULATOR+=(--memory 4G --append kasan_multi_shot
		--append rcupdate.rcu_cpu_stall_timeout=120 --append workqueue.watchdog_thresh=120)
fi
# KCSAN waits at an address for somebody else to use it. While the emulator translates and the host does something
# else, the other processor does not get far in the 80 microseconds that it waits: longer, and less often.
if [[ $version == *-kcsan ]]; then
	EMULATOR+=(--append kcsan.udelay_task=2000 --append kcsan.udelay_interrupt=500 --append kcsan.skip_watch=20000)
fi
# COVERAGE: the emulator notes each block of instructions when it first translates it, which is just before the
# block is first executed. Only where modules are: their code alone, and that it is little work (see selftests/machine/coverage).
if [[ -n ${COVERAGE:-} ]]; then
	mkdir -p /build/coverage
	EMULATOR+=(--qemu-opts="-d in_asm -dfilter 0xffffffffc0000000..0xfffffffffeffffff -D /build/coverage/${name:?}.log")
fi

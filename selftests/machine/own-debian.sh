# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# A Debian of its own in a copy below $dir, booted with systemd, that runs the parts of a script:
# shared by install and containers. /steps in its root has the script, and the results for the host:
# PART.tap, PART.status.

. "$(dirname "${BASH_SOURCE[0]}")/ready.sh"
# Set by the script that sources this.
dir=

# make_own_debian TEXT LOG PACKAGES DIR: make it in DIR/root, with manuals, and without an initial
# file system for each kernel: the machine has one of its own.
make_own_debian() {
	make_debian "$1 (once; three to five minutes)" "$2" "$SUITE" "$4/root" "$3" --variant=minbase --dpkgopt=force-unsafe-io --dpkgopt=force-confold "$WITH_BACKPORTS" \
		--essential-hook='mkdir -p "$1/etc/initramfs-tools" && echo update_initramfs=no >"$1/etc/initramfs-tools/update-initramfs.conf"'
}

# containers_root: make the Debian for containers and the tests of their scripts. Cache entry:
#   containers-KEY   root/: that Debian, without a kernel
containers_root() {
	cache_entry containers "$(key_of containers "$SUITE" "$(packages packages-containers)")" make_own_debian "Debian $SUITE with systemd, podman and Docker" containers-root \
		"$(packages packages-containers | paste -sd,)"
}

# made_up_machine ROOT SCRIPT: run SCRIPT steps with the programs of ROOT and made-up /sys and /run.
made_up_machine() {
	bwrap --die-with-parent --unshare-pid --cap-add ALL --ro-bind "$1" / --proc /proc --dev /dev --tmpfs /run \
		--tmpfs /tmp --tmpfs /sys --dir /sys/kernel/tracing --dir /sys/module/user_events --ro-bind "$CLONE" /mnt \
		--setenv PATH /usr/sbin:/usr/bin:/sbin:/bin --chdir /tmp -- "/mnt/selftests/machine/$2" steps
}

# in_debian DIR COMMAND...: run it in the Debian in DIR while that is not booted.
in_debian() {
	bwrap --die-with-parent --unshare-pid --cap-add ALL --bind "$1" / --proc /proc --dev /dev --tmpfs /run --tmpfs /tmp \
		--ro-bind-try /etc/resolv.conf /etc/resolv.conf --ro-bind-try "$CLONE/build/deb" /mnt ${DEBS:+--ro-bind "$DEBS" /media} \
		--setenv PATH /usr/sbin:/usr/bin:/sbin:/bin --setenv HOME /root --setenv LC_ALL C.UTF-8 --setenv DEBIAN_FRONTEND noninteractive \
		--chdir / -- "${@:2}"
}

# The kernel's command line.
kernel_options='console=ttyS0 rw mitigations=off init_on_alloc=0 no_timer_check panic=-1'

# make_initrd KERNEL: in that Debian, make an initial file system that mounts the root by 9p.
make_initrd() {
	local version=$1 name count=0
	mkdir -p /tmp/initrd/{bin,modules,proc,sys,dev,root} /steps/boot
	cp /usr/bin/busybox /tmp/initrd/bin/
	for name in $(modprobe -S "$version" --show-depends -a virtio_pci 9p 9pnet_virtio | sed -n 's/^insmod //p' | awk '!seen[$0]++'); do
		count=$((count + 1))
		case $name in
		*.xz) xz -dc "$name" ;;
		*) cat "$name" ;;
		esac >"/tmp/initrd/modules/$(printf '%03d' "$count")"
	done
	cat >/tmp/initrd/init <<-'END'
		#!/bin/busybox sh
		/bin/busybox --install -s /bin
		mount -t devtmpfs dev /dev
		for module in /modules/*; do insmod $module; done
		mount -t 9p -o trans=virtio,version=9p2000.L,cache=loose,msize=262144 root /root
		mount --move /dev /root/dev
		exec switch_root /root /sbin/init
	END
	chmod 755 /tmp/initrd/init
	(cd /tmp/initrd && find . | cpio -o -H newc --quiet) >/steps/boot/initrd
}

# make_disk KERNEL OPTIONS: in that Debian, make a disk for Secure Boot: the firmware starts shim,
# signed by Microsoft, which starts GRUB, which starts the kernel, both signed by Debian.
make_disk() {
	local disk=/steps/boot/disk
	printf '%s\n' "linux /vmlinuz $2" 'initrd /initrd' boot >/tmp/grub.cfg
	rm -f "$disk" && truncate -s 128M "$disk"
	mformat -i "$disk" -F ::
	mmd -i "$disk" ::/EFI ::/EFI/BOOT ::/EFI/debian
	mcopy -i "$disk" /usr/lib/shim/shimx64.efi.signed ::/EFI/BOOT/BOOTX64.EFI
	mcopy -i "$disk" /usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed ::/EFI/BOOT/grubx64.efi
	mcopy -i "$disk" /tmp/grub.cfg ::/EFI/debian/grub.cfg
	mcopy -i "$disk" "/boot/vmlinuz-$1" ::/vmlinuz
	mcopy -i "$disk" /steps/boot/initrd ::/initrd
}

# emulate_debian DIR KERNEL OPTIONS: inside the machine's root, boot the Debian in DIR/root until
# its end; with a file DIR/firmware by a firmware with these variables, with Secure Boot.
emulate_debian() {
	local root=/src/$1/root machine=q35,hpet=off start
	if [[ -e $1/firmware ]]; then
		machine+=,smm=on
		# shellcheck disable=SC2054 # the emulator's commas
		start=(-global driver=cfi.pflash01,property=secure,value=on
			-drive "if=pflash,unit=0,format=raw,readonly=on,file=$root/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"
			-drive "if=pflash,unit=1,format=raw,file=/src/$1/firmware"
			-drive "if=virtio,format=raw,file=$root/steps/boot/disk")
	else
		start=(-kernel "$root/boot/vmlinuz-$2" -initrd "$root/steps/boot/initrd" -append "$3")
	fi
	exec timeout -k 10 3600 qemu-system-x86_64 -machine "$machine" "${start[@]}" -accel tcg,thread=multi -cpu max -smp 2 -m 3G -nodefaults -no-reboot \
		-display none -serial stdio -fsdev local,id=root,path="$root",security_model=passthrough,multidevs=remap \
		-device virtio-9p-pci,fsdev=root,mount_tag=root,ioeventfd=off
}

# boot_debian PART KERNEL: boot the Debian in $dir/root, and run PART of its steps there.
boot_debian() {
	local part=$1 root=$dir/root status=0
	rm -f "$root/steps/$part".{tap,status}
	echo "$part" >"$root/steps/part"
	in_debian "$root" bash -euc "$(declare -f make_initrd)"$'\n''"$@"' bash make_initrd "$2"
	[[ ! -e $dir/firmware ]] || in_debian "$root" bash -euc "$(declare -f make_disk)"$'\n''"$@"' bash make_disk "$2" "$kernel_options"
	step "boot $2: $part" "$dir/$part.console" inside emulate_debian "$dir" "$2" "$kernel_options" || status=$?
	if [[ -e $root/steps/$part.status ]]; then
		cat "$root/steps/$part.tap"
		read -r status <"$root/steps/$part.status"
		count_tap "$part, $2" "$status" <"$root/steps/$part.tap"
	else
		count 0 1 "$part, $2: the machine came to its end (status $status)"
	fi
}

# prepare_steps SCRIPT: copy the Debian of CACHE_ENTRY, in which SCRIPT runs when that boots, and
# powers off at its end.
prepare_steps() {
	local root=$dir/root
	step "copy that Debian" "$dir/copy.log" cp -a "$CACHE_ENTRY/root" "$dir/"
	mkdir -p "$root/steps/programs"
	cp "$MACHINE/$1" "$root/steps/steps"
	cp "$MACHINE/steps.sh" "$root/steps/"
	cp -r build/samples/. "$root/steps/programs/"
	cat >"$root/etc/systemd/system/steps.service" <<-'END'
		[Unit]
		After=multi-user.target
		[Service]
		Type=oneshot
		ExecStart=/bin/sh -c 'part=$(cat /steps/part); /steps/steps $part >/steps/$part.tap; echo $? >/steps/$part.status; sync'
		ExecStopPost=/usr/bin/systemctl --no-block poweroff
		[Install]
		WantedBy=multi-user.target
	END
	ln -sf /etc/systemd/system/steps.service "$root/etc/systemd/system/multi-user.target.wants/"
}

# SPDX-License-Identifier: GPL-2.0
#
# What a person types. The module itself is described in Kbuild, which the kernel's own build reads.

# The kernel to build for; KDIR names its headers directly.
KVER ?= $(shell uname -r)
KDIR ?= /lib/modules/$(KVER)/build
# Where provider and tools are built. (O would reach the kernel's make, which means something else by it.)
BUILD ?= $(CURDIR)/build
DESTDIR ?=
# How long a fuzzer runs.
T ?= 30

version := $(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' dkms.conf)
multiarch = $(shell dpkg-architecture -qDEB_HOST_MULTIARCH 2> /dev/null || gcc -print-multiarch)
source_dir = $(DESTDIR)/usr/src/ziw-$(version)
provider_dir = $(DESTDIR)/usr/lib/$(multiarch)/libibverbs
driver_dir = $(DESTDIR)/etc/libibverbs.d
man_dir = $(DESTDIR)/usr/share/man
unit_dir = $(DESTDIR)/usr/lib/systemd/system
rules_dir = $(DESTDIR)/usr/lib/udev/rules.d
libexec_dir = $(DESTDIR)/usr/libexec
conf = $(DESTDIR)/etc/ziw.conf
deb_dir = $(BUILD)/deb/ziw-$(version)

# $(call refuse,WORDS): end in one line that says what is missing and how to mend it.
refuse = { echo "ziw: $(1)" >&2; exit 1; }
# Not with DESTDIR: a tree that is staged is no business of this machine's DKMS.
dkms_remove = $(if $(DESTDIR),,if dkms status -m ziw -v $(version) | grep -q .; then dkms remove ziw/$(version) --all; fi)

.PHONY: modules provider tools install install-boot install-tools uninstall deb demo check check-all conformance fuzz \
	coverage canaries bench profile lint shell clean help need-headers need-root need-dkms need-deb

modules: need-headers ## build ziw.ko for the running kernel, or for KVER=release or KDIR=headers
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

provider: ## build the provider for the installed rdma-core, into build/provider
	provider/build $(BUILD)/provider

tools: ## build the tools, into build/tools
	tools/build $(BUILD)/tools

install: need-root need-dkms need-headers provider install-boot ## install the module (DKMS), the provider, the service and the man pages
	# What DKMS has built it does not build again, whatever became of the source.
	$(dkms_remove)
	rm -rf $(source_dir)
	install -d $(source_dir) $(provider_dir) $(driver_dir) $(man_dir)/man7
	cp -R --parents Kbuild dkms.conf COPYING $$(find kernel uapi -name '*.[ch]') $(source_dir)/
	install -m 644 $(BUILD)/provider/libziw-rdmav*.so $(provider_dir)/
	install -m 644 $(BUILD)/provider/ziw.driver $(driver_dir)/
	install -m 644 provider/man/*.7 $(man_dir)/man7/
	$(if $(DESTDIR),,dkms install --force ziw/$(version) -k $(KVER))

install-boot: need-root
	install -d $(unit_dir) $(rules_dir) $(libexec_dir) $(dir $(conf)) $(man_dir)/man5
	install -m 755 boot/ziw-devices $(libexec_dir)/
	install -m 644 boot/ziw.service boot/ziw@.service $(unit_dir)/
	install -m 644 boot/ziw.rules $(rules_dir)/90-ziw.rules
	install -m 644 boot/ziw.conf.5 $(man_dir)/man5/
	test -e $(conf) || install -m 644 boot/ziw.conf $(conf)

install-tools: need-root tools ## install ziw-wire and ziw-bench with their man pages
	install -d $(DESTDIR)/usr/bin $(man_dir)/man1
	install -m 755 $(BUILD)/tools/ziw-wire $(BUILD)/tools/ziw-bench $(DESTDIR)/usr/bin/
	install -m 644 tools/wire/*.1 tools/bench/*.1 $(man_dir)/man1/

uninstall: need-root ## remove what install and install-tools put there, except /etc/ziw.conf
	if [ -d /run/systemd/system ] && [ -z "$(DESTDIR)" ]; then systemctl --quiet disable --now ziw || :; fi
	$(dkms_remove)
	rm -rf $(source_dir)
	rm -f $(provider_dir)/libziw-rdmav*.so $(driver_dir)/ziw.driver $(man_dir)/man7/ziw.7
	rm -f $(libexec_dir)/ziw-devices $(unit_dir)/ziw.service $(unit_dir)/ziw@.service $(rules_dir)/90-ziw.rules \
		$(man_dir)/man5/ziw.conf.5
	rm -f $(addprefix $(DESTDIR)/usr/bin/,ziw-wire ziw-bench) $(addprefix $(man_dir)/man1/,ziw-wire.1 ziw-bench.1)

deb: need-deb ## build the packages ziw-dkms, ziw-provider and ziw-tools, into build/deb
	rm -rf $(deb_dir)
	mkdir -p $(deb_dir)
	cp -R --parents -t $(deb_dir) Kbuild dkms.conf COPYING boot debian provider tools \
		$$(find kernel uapi -name '*.[ch]')
	cd $(deb_dir) && dpkg-buildpackage --build=binary --no-sign --ignore-builtin-builddeps
	rm -rf $(deb_dir)

demo: need-root ## two hosts in a virtual machine exchange RDMA traffic; installs what it needs
	selftests/vm/run --kernel 6.12 -- selftests/demo

conformance: need-root ## run the conformance suite against the RFCs in a virtual machine; installs what it needs
	selftests/check conformance

check: need-root ## run all tests, in virtual machines; installs what it needs
	selftests/check

check-all: need-root ## run the tests on each kernel, and those of the packages; ends with a table, kernel by test
	selftests/check-all

fuzz: need-root ## fuzz the wire formats and work requests, T=30 seconds each; installs what it needs
	selftests/fuzz/run $(T)

canaries: need-root ## plant faults in copies of the source, and see the tests catch them
	selftests/canaries/run

coverage: need-root ## what of kernel/ the tests execute, on the debug kernel, line by line
	selftests/coverage

bench: need-root ## measure against TCP, siw and rxe in a virtual machine; installs what it needs
	selftests/bench/run

profile: need-root ## where the instructions of each operation go, by function
	selftests/bench/profile

lint: need-root ## checkpatch, sparse, clang-format, shellcheck; installs what it needs
	selftests/lint

shell: need-root ## a shell in a virtual machine that has the module and the provider
	selftests/vm/run --kernel 6.12 --shell

clean: ## remove what the targets above built here (the test machines' cache stays)
	rm -rf $(BUILD)
	find . -path ./.git -prune -o \( -name '*.o' -o -name '*.ko' -o -name '*.mod' -o -name '*.mod.c' \
		-o -name '.*.cmd' -o -name '*.o.d' \) -type f -exec rm -f {} +
	rm -f Module.symvers modules.order

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 15

need-headers:
	@test -e $(KDIR)/Makefile || \
		$(call refuse,no headers for kernel $(KVER) in $(KDIR): apt-get install linux-headers-$(KVER))

need-root:
	@test "$$(id -u)" = 0 || \
		$(call refuse,must be root: sudo -E make $(MAKECMDGOALS))

need-deb:
	@command -v dpkg-buildpackage > /dev/null || \
		$(call refuse,dpkg-buildpackage is missing: apt-get install dpkg-dev)
	@dpkg-checkbuilddeps -I debian/control || \
		$(call refuse,packages are missing: apt-get build-dep ./)

need-dkms:
	@command -v dkms > /dev/null || \
		$(call refuse,DKMS is missing: apt-get install dkms)

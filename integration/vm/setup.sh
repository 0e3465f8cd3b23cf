#!/bin/sh
# What a machine does before it is ready, and what a test runs again ("setup.sh links") when it
# has taken a link down: routes and neighbours go with a link.
#
# Without role= on the kernel's command line: two RDMA devices in software, rxe1 and rxe2, each
# behind its own end of a veth pair, v1 (10.9.0.1) and v2 (10.9.0.2). Left alone, a packet to
# an own address would take the loopback device, where no rxe sits. So the table of own
# addresses moves behind rules that send what goes from one address to the other over the pair.
#
# With role=1 or 2: one, rxe1, at 10.9.0.<role>, behind a network card that leads to the other
# machine.
set -e

# The shell is busybox's, which takes its own ip before any other.
ip() { /usr/bin/ip "$@"; }

links() {
	ip route replace 10.9.0.2/32 dev v1 src 10.9.0.1 table 101
	ip route replace 10.9.0.1/32 dev v2 src 10.9.0.2 table 102
	ip neigh replace 10.9.0.2 lladdr "$(cat /sys/class/net/v2/address)" dev v1
	ip neigh replace 10.9.0.1 lladdr "$(cat /sys/class/net/v1/address)" dev v2
}

role=
for word in $(cat /proc/cmdline); do
	case $word in role=*) role=${word#role=} ;; esac
done
if [ "$1" = links ]; then
	[ -n "$role" ] || links
	exit
fi

echo 1 >/proc/sys/kernel/printk
# Sixteen megabytes are four thousand packets: more than the backlog takes by itself.
echo 100000 >/proc/sys/net/core/netdev_max_backlog
ip link set lo up

if [ -n "$role" ]; then
	for dir in /sys/class/net/*; do
		[ -e "$dir/device" ] && card=${dir##*/}
	done
	ip link set "$card" name v1
	ip addr add "10.9.0.$role/24" dev v1
	ip link set v1 mtu 9000 up
	rdma link add rxe1 type rxe netdev v1
else
	ip link add v1 type veth peer name v2
	for i in 1 2; do
		ip addr add 10.9.0.$i/24 dev v$i
		ip link set v$i mtu 9000 up
		echo 0 >/proc/sys/net/ipv4/conf/v$i/rp_filter
		# One processor for what arrives: spread over two, packets lose their order.
		echo 1 >/sys/class/net/v$i/queues/rx-0/rps_cpus
		ip rule add pref 10 iif v$i lookup local
	done
	echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
	echo 1 >/proc/sys/net/ipv4/conf/all/accept_local
	ip rule add pref 12 from 10.9.0.1 to 10.9.0.2 lookup 101
	ip rule add pref 13 from 10.9.0.2 to 10.9.0.1 lookup 102
	ip rule add pref 100 lookup local
	ip rule del pref 0
	links
	rdma link add rxe1 type rxe netdev v1
	rdma link add rxe2 type rxe netdev v2
fi
rdma link

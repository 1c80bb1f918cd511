#!/bin/sh
# Copies the addresses that operators have banned to nftables, while it runs:
#
#	sh bans.sh [<admin address>]
#
# It needs curl and nft, and the rights to change the firewall. See docs/recipes/before-tls.md.
admin=${1:-http://localhost:2019}

# addresses prints the banned addresses that a grep finds, in a line. Allowances, keys and references of clients
# aren't among them.
addresses() {
	curl -sf "$admin/rate_limit/bans" | sed 's/{/\n{/g' | grep '"action": *"ban"' |
		sed -n 's/.*"client": *"\([0-9a-f.:/]*\)".*/\1/p' | grep "$@" | paste -s -d , -
}

# elements prints the commands that replace the content of a set.
elements() {
	echo "flush set inet caddy $1"
	[ -z "$2" ] || echo "add element inet caddy $1 { $2 }"
}

# copy replaces both sets, all at once.
copy() {
	{
		echo 'add table inet caddy'
		echo 'add set inet caddy bans4 { type ipv4_addr; flags interval; auto-merge; }'
		echo 'add set inet caddy bans6 { type ipv6_addr; flags interval; auto-merge; }'
		echo 'add chain inet caddy input { type filter hook input priority -10; }'
		echo 'flush chain inet caddy input'
		echo 'add rule inet caddy input ip saddr @bans4 drop'
		echo 'add rule inet caddy input ip6 saddr @bans6 drop'
		elements bans4 "$(addresses -v :)"
		elements bans6 "$(addresses :)"
	} | nft -f -
}

# The totals come once a second: so often is copied at most.
seconds=0 banned=yes
curl -sfN "$admin/rate_limit/events" | while read -r event; do
	case $event in
	*'"reason":"banned"'*) banned=yes ;;
	*'"totals"'*)
		seconds=$((seconds + 1))
		if [ "$banned" ] || [ $((seconds % 60)) = 0 ]; then
			copy
			banned=
		fi
		;;
	esac
done

package fetch

import (
	"fmt"
	"net/netip"
	"syscall"
)

// interfaceNets returns the networks of this machine's interfaces, and its addresses. net.InterfaceAddrs lacks
// the far end of point-to-point links.
func interfaceNets() ([]netip.Prefix, error) {
	table, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	return addrNets(table)
}

// addrNets reads the answers to RTM_GETADDR. IFA_ADDRESS and the length are the network; on a point-to-point
// link that is the far end's, and IFA_LOCAL is our address (rtnetlink(7)).
func addrNets(table []byte) (nets []netip.Prefix, err error) {
	messages, err := syscall.ParseNetlinkMessage(table)
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	for i := range messages {
		m := &messages[i]
		if m.Header.Type == syscall.NLMSG_DONE {
			break
		}
		if m.Header.Type != syscall.RTM_NEWADDR || len(m.Data) < syscall.SizeofIfAddrmsg {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(m)
		if err != nil {
			return nil, fmt.Errorf("netlink: %w", err)
		}
		var local netip.Addr
		var network netip.Prefix
		for _, a := range attrs {
			addr, ok := netip.AddrFromSlice(a.Value)
			switch {
			case !ok:
			case a.Attr.Type == syscall.IFA_LOCAL:
				local = addr
			case a.Attr.Type == syscall.IFA_ADDRESS:
				if network, err = addr.Prefix(int(m.Data[1])); err != nil { // ifa_prefixlen
					return nil, fmt.Errorf("netlink: address %v: %w", addr, err)
				}
			}
		}
		if network.IsValid() {
			nets = append(nets, network)
		}
		if local.IsValid() && !network.Contains(local) {
			nets = append(nets, netip.PrefixFrom(local, local.BitLen()))
		}
	}
	return nets, nil
}

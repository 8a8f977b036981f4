package session

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

const defaultPort = "2181"

// ParseServers returns host:port of each server.
func ParseServers(servers []string) ([]string, error) {
	if len(servers) == 0 {
		return nil, errors.New("no servers")
	}
	var addresses []string
	for _, server := range servers {
		address, err := ParseServer(server)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// ParseServer returns host:port of a host or an address, with or without a port. An
// IPv6 address with a port is in brackets.
func ParseServer(server string) (string, error) {
	bad := fmt.Errorf("server %q is not host or host:port", server)
	if addr, err := netip.ParseAddr(strings.Trim(server, "[]")); err == nil {
		return net.JoinHostPort(addr.String(), defaultPort), nil
	}
	if !strings.Contains(server, ":") {
		server += ":" + defaultPort
	}
	host, port, err := net.SplitHostPort(server)
	if err != nil || host == "" || strings.ContainsAny(host, "/ ,") {
		return "", bad
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", bad
	}
	return net.JoinHostPort(host, port), nil
}

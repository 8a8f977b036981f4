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
		address, err := parseServer(server)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// parseServer returns host:port of a host or an address, with or without a port. An
// IPv6 address with a port is in brackets.
func parseServer(server string) (string, error) {
	host, port := server, defaultPort
	if inside, ok := inBrackets(server); ok {
		host = inside
	} else if _, err := netip.ParseAddr(server); err != nil && strings.Contains(server, ":") {
		if host, port, err = net.SplitHostPort(server); err != nil {
			return "", notAServer(server)
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", notAServer(server)
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		host = addr.String()
	} else if strings.Contains(host, ":") {
		return "", notAServer(server)
	}
	if _, zone, _ := strings.Cut(host, "%"); host == "" || strings.ContainsAny(host, "/ ,[]") || strings.Contains(zone, ":") {
		return "", notAServer(server)
	}
	return net.JoinHostPort(host, port), nil
}

func inBrackets(server string) (inside string, ok bool) {
	inside, opens := strings.CutPrefix(server, "[")
	inside, closes := strings.CutSuffix(inside, "]")
	return inside, opens && closes
}

func notAServer(server string) error {
	if strings.ContainsAny(server, ",/") {
		return fmt.Errorf("server %q is not host or host:port: use ParseServers to split a connect string", server)
	}
	return fmt.Errorf("server %q is not host or host:port", server)
}

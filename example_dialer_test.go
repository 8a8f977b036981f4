package zkrecipes_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// A dialer that connects through an HTTP proxy. The proxy gets the name of the server, and looks
// it up itself: this process need not know the address.
func ExampleOptions_dialer() {
	srv, err := zktest.Start() // a ZooKeeper inside this process
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Close()
	proxy := httptest.NewServer(proxyTo(srv.Addr()))
	defer proxy.Close()

	dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, proxy.Listener.Addr().String())
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() }) // the proxy may not answer
		defer stop()
		request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr}
		if err := request.Write(conn); err != nil {
			conn.Close()
			return nil, err
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), request) // ZooKeeper sends nothing by itself
		if err != nil {
			conn.Close()
			return nil, err
		}
		if response.StatusCode != http.StatusOK {
			conn.Close()
			return nil, fmt.Errorf("proxy: %s", response.Status)
		}
		return conn, nil
	}
	client, err := zkrecipes.Dial(context.Background(), []string{"zk.internal:2181"}, &zkrecipes.Options{Dialer: dialer})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println("connected to", client.Status().Server)
	// Output:
	// the proxy connects to zk.internal:2181
	// connected to zk.internal:2181
}

// proxyTo stands for the proxy. It knows one server.
func proxyTo(target string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("the proxy connects to", r.Host)
		server, err := net.Dial("tcp", target)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer server.Close()
		client, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer client.Close()
		fmt.Fprint(client, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			io.Copy(server, client)
			server.Close()
		}()
		io.Copy(client, server)
	}
}

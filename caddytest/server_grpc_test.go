package caddytest

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// service is a service of gRPC that answers with the status that a call's metadata names.
type service struct {
	grpc_testing.UnimplementedTestServiceServer
}

func answerOf(ctx context.Context) error {
	if code := metadata.ValueFromIncomingContext(ctx, "answer"); len(code) > 0 {
		n, _ := strconv.Atoi(code[0])
		return status.Error(codes.Code(n), "as asked")
	}
	return nil
}

func (service) UnaryCall(ctx context.Context, _ *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	return new(grpc_testing.SimpleResponse), answerOf(ctx)
}

func (service) StreamingInputCall(stream grpc_testing.TestService_StreamingInputCallServer) error {
	if err := answerOf(stream.Context()); err != nil {
		return err
	}
	return stream.SendAndClose(new(grpc_testing.StreamingInputCallResponse))
}

func (service) FullDuplexCall(stream grpc_testing.TestService_FullDuplexCallServer) error {
	for {
		if _, err := stream.Recv(); err == io.EOF {
			return answerOf(stream.Context()) // late: the header is sent
		} else if err != nil {
			return err
		}
		if err := stream.Send(new(grpc_testing.StreamingOutputCallResponse)); err != nil {
			return err
		}
	}
}

// serveGRPC starts the service, and returns its address.
func serveGRPC(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	grpc_testing.RegisterTestServiceServer(s, service{})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// callsGRPC are the kinds of calls, each of which returns the trailers and the error of one.
var callsGRPC = map[string]func(context.Context, grpc_testing.TestServiceClient) (metadata.MD, error){
	"unary": func(ctx context.Context, c grpc_testing.TestServiceClient) (trailer metadata.MD, err error) {
		_, err = c.UnaryCall(ctx, new(grpc_testing.SimpleRequest), grpc.Trailer(&trailer))
		return trailer, err
	},
	"a long body": func(ctx context.Context, c grpc_testing.TestServiceClient) (trailer metadata.MD, err error) {
		body := &grpc_testing.SimpleRequest{Payload: &grpc_testing.Payload{Body: make([]byte, 2<<20)}}
		_, err = c.UnaryCall(ctx, body, grpc.Trailer(&trailer))
		return trailer, err
	},
	"no body": func(ctx context.Context, c grpc_testing.TestServiceClient) (metadata.MD, error) {
		stream, err := c.StreamingInputCall(ctx)
		if err != nil {
			return nil, err
		}
		_, err = stream.CloseAndRecv()
		return stream.Trailer(), err
	},
	"a stream of messages": func(ctx context.Context, c grpc_testing.TestServiceClient) (metadata.MD, error) {
		stream, err := c.FullDuplexCall(ctx)
		if err != nil {
			return nil, err
		}
		_ = stream.Send(new(grpc_testing.StreamingOutputCallRequest)) // fails where the answer was faster
		_, err = stream.Recv()
		return stream.Trailer(), err
	},
	"late": func(ctx context.Context, c grpc_testing.TestServiceClient) (metadata.MD, error) {
		stream, err := c.FullDuplexCall(ctx)
		if err != nil {
			return nil, err
		}
		_ = stream.Send(new(grpc_testing.StreamingOutputCallRequest))
		if _, err := stream.Recv(); err != nil {
			return stream.Trailer(), err
		}
		_ = stream.CloseSend()
		if _, err = stream.Recv(); err == io.EOF {
			err = nil
		}
		return stream.Trailer(), err
	},
}

func dialGRPC(t *testing.T, port string, how credentials.TransportCredentials, options ...grpc.DialOption) grpc_testing.TestServiceClient {
	conn, err := grpc.NewClient("passthrough:///127.0.0.1:"+port, append(options, grpc.WithTransportCredentials(how))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return grpc_testing.NewTestServiceClient(conn)
}

// repeating makes grpc-go repeat calls with some statuses, as fast as it may.
var repeating = grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.001s",
	"maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"]}}]}`)

// grpcSite is a site with a service of gRPC at {$UPSTREAM}.
const grpcSite = `
	rate_limit {
		zone closed {
			match path /grpc.testing.TestService/StreamingOutputCall
			per key {http.request.header.X-Nobody}
			on_empty_key deny
			limit 5/1h
		}
		zone keys {
			match header Needs-Key *
			per api_key
			limit 100/1h
		}
		zone calls {
			match not header Unlimited *
			per ip
			limit 1/1h
		}
	}
	reverse_proxy h2c://{$UPSTREAM}
`

// A client of gRPC that is refused learns the status of gRPC and when to try again, whatever the call.
// Operators see a refusal with 429.
func TestClientsOfGRPCAreRefusedInTheirTerms(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options("rate_limit {\nstore_timeout 1m\napi_keys\ndecision_log\n}\nhttp_port {$OTHER}\nhttps_port {$TLS}\nservers {\nprotocols h1 h2 h2c\n}\n")+site(grpcSite)+
		"https://localhost:{$TLS} {\ntls internal\n"+grpcSite+"}\n", "UPSTREAM="+serveGRPC(t))
	secure := credentials.NewTLS(&tls.Config{ServerName: "localhost", InsecureSkipVerify: true})
	refused := 1 // the second client's first call: they are one client by their address
	for name, client := range map[string]grpc_testing.TestServiceClient{
		"h2c": dialGRPC(t, s.port, insecure.NewCredentials()), "TLS": dialGRPC(t, s.tls, secure),
	} {
		passes := metadata.AppendToOutgoingContext(t.Context(), "unlimited", "yes")
		waitFor(t, "the site with "+name, func() bool {
			_, err := callsGRPC["unary"](passes, client)
			return err == nil
		})
		_, _ = callsGRPC["unary"](t.Context(), client) // the one call of the hour
		refused += len(callsGRPC) + 1                  // and that never passes
		for kind, call := range callsGRPC {
			if _, err := call(passes, client); err != nil {
				t.Errorf("%s, %s: a call that may pass ends with %v", name, kind, err)
			}
			trailer, err := call(t.Context(), client)
			after := strings.Join(trailer["retry-after"], "")
			if n, _ := strconv.Atoi(after); status.Code(err) != codes.ResourceExhausted || status.Convert(err).Message() != "Too Many Requests" ||
				n < 3000 || strings.Join(trailer["grpc-retry-pushback-ms"], "") != after+"000" {
				t.Errorf("%s, %s: a refused call ends with %v, trailers %v", name, kind, err, trailer)
			}
		}
		stream, err := client.StreamingOutputCall(t.Context(), new(grpc_testing.StreamingOutputCallRequest))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = stream.Recv(); status.Code(err) != codes.ResourceExhausted || strings.Join(stream.Trailer()["grpc-retry-pushback-ms"], "") != "-1" {
			t.Errorf("%s: a call that never passes ends with %v, trailers %v", name, err, stream.Trailer())
		}
		without := metadata.AppendToOutgoingContext(passes, "needs-key", "yes")
		if _, err := callsGRPC["unary"](without, client); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: a call without an API key ends with %v", name, err)
		}
	}
	log := s.logLines("refused")
	for _, line := range log {
		if line["status"] != 429.0 {
			t.Errorf("the decision log says %v", line)
		}
	}
	if len(log) != refused {
		t.Errorf("the decision log has %d refusals, want %d", len(log), refused)
	}
	s.wantCommand(t, 0, []string{"ban", "127.0.0.1"})
	if _, err := callsGRPC["unary"](t.Context(), dialGRPC(t, s.port, insecure.NewCredentials())); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a banned client's call ends with %v", err)
	}
}

// A client that repeats what fails waits as long as it is told: 429 would be UNAVAILABLE to it, and repeated
// at once.
func TestClientsOfGRPCDoNotRepeatAtOnce(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options("rate_limit {\nstore_timeout 1m\ndecision_log\n}\nservers {\nprotocols h1 h2 h2c\n}\n")+
		site("rate_limit {\nzone calls {\nper ip\nlimit 1/1h\n}\n}\nreverse_proxy h2c://{$UPSTREAM}"), "UPSTREAM="+serveGRPC(t))
	client := dialGRPC(t, s.port, insecure.NewCredentials(), repeating)
	if _, err := callsGRPC["unary"](t.Context(), client); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := callsGRPC["unary"](ctx, client); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the call ends with %v, and should wait to be repeated", err)
	}
	if n := len(s.logLines("refused")); n > 1 {
		t.Errorf("the client has asked %d times", n)
	}
}

// Failed calls count by the status of gRPC, whether it comes in trailers or, where the answer has nothing else,
// in the header. Others use up nothing.
func TestCountByStatusOfGRPC(t *testing.T) {
	t.Parallel()
	for _, hold := range []string{"", " hold"} {
		s := startCaddy(t, options(patient+"servers {\nprotocols h1 h2 h2c\n}\n")+
			site("rate_limit {\nzone failures {\nper ip\nlimit 4/1h\ncount when grpc_status 16 7"+hold+"\n}\n}\nreverse_proxy h2c://{$UPSTREAM}"), "UPSTREAM="+serveGRPC(t))
		client := dialGRPC(t, s.port, insecure.NewCredentials())
		answered := func(code codes.Code, kind string) codes.Code {
			_, err := callsGRPC[kind](metadata.AppendToOutgoingContext(t.Context(), "answer", strconv.Itoa(int(code))), client)
			return status.Code(err)
		}
		for range 6 {
			for _, code := range []codes.Code{codes.OK, codes.NotFound} {
				if got := answered(code, "unary"); got != code {
					t.Fatalf("a call that doesn't count ends with %v, want %v", got, code)
				}
			}
		}
		for _, kind := range []string{"unary", "no body", "a long body", "late"} {
			if got := answered(codes.Unauthenticated, kind); got != codes.Unauthenticated {
				t.Errorf("%s: a call that fails ends with %v", kind, got)
			}
		}
		if got := answered(codes.OK, "unary"); got != codes.ResourceExhausted {
			t.Errorf("a call after four failures ends with %v", got)
		}
	}
}

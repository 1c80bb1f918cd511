// Package endpoint matches requests to an endpoint of a backend: a method, a path and parameters of
// the query. It knows nothing of HTTP servers: a [Request] holds the text that a server received.
//
// One action of a backend has many spellings, because backends are lenient: /login, /login/,
// /LOGIN, /login.json, /login;x, /%6cogin, /x/../login, /index.php/login. Which of them reach it
// depends on the backend. There are three questions:
//
//   - [Endpoint.Covers]: may some backend route the request to the endpoint? For limits: a spelling
//     that isn't counted bypasses the limit, and one that is counted needlessly costs one unit.
//   - [Endpoint.Names]: does the request name the endpoint, in any encoding, without guesses about
//     extensions and scripts? For traps, where a wrong guess harms a client.
//   - [Endpoint.Is]: is the request the endpoint, exactly as it is written? For exemptions: a
//     request that is exempt by mistake isn't limited (decision 40).
//
// # How a request is read
//
// A canonical path (see [Request.IsCanonical]) is compared as it is, without memory allocation. Any
// other is read in each way that a program may read it (readings.go), and covered if one of these
// readings is. The readings handle:
//
//   - percent-encoding, until nothing is left to decode; overlong UTF-8 and fullwidth characters as
//     ASCII; upper and lower case alike
//   - `\` as `/`; several slashes as one; a trailing slash as none
//   - `;parameters` of segments, removed before and after decoding; for Covers also as the query
//   - blanks and control characters around a segment, and dots after it, removed
//   - text after a NUL, an encoded `?` or `#`, or `::$`, kept and removed
//   - `//host/path` as a URL with a host
//   - for Covers, /(S(x))/ as a session, which ASP.NET removes
//   - `..` resolved and left alone. In combination with anything else on this list, programs
//     disagree on its meaning. Then a path covers every endpoint whose names it contains in their
//     order.
//
// A reading then covers an endpoint with guesses (pattern.go): after a script (/index.php/login),
// with an extension (/login.json), and with more text after a script or before a file
// (/login.php/x, /login/x.css).
//
// Reading takes one pass over the bytes of a request, however often they are encoded, and is done
// once for all endpoints, because [Request.Memory] keeps the result. Long requests aren't read, and
// are covered: a path of more than 2048 bytes or 8 scripts, a query of more than 4096 bytes or 1000
// parameters. They are never named, and never the endpoint.
package endpoint

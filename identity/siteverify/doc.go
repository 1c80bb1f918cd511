// Package siteverify asks a service whether a browser's token is genuine. Cloudflare Turnstile, hCaptcha and Google
// reCAPTCHA have a common protocol.
//
// # Invariants
//
//   - A client passes only after a positive answer for this hostname and action, with a recent time. Any other
//     result gives the client nothing, and has no other effect.
//   - A slow, unavailable or broken service costs a bounded time, a bounded number of bytes and a bounded
//     number of concurrent requests.
//   - The client's address is not sent. The services know it from the browser, if there is one.
//
// # Sources
//
//   - https://developers.cloudflare.com/turnstile/get-started/server-side-validation/
//   - https://docs.hcaptcha.com/#verify-the-user-response-server-side
//   - https://developers.google.com/recaptcha/docs/verify
package siteverify

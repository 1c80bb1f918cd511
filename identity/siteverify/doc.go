// Package siteverify asks a service whether a token that a browser sent was
// earned there: Cloudflare Turnstile, hCaptcha and Google reCAPTCHA share a
// protocol.
//
// # Invariants
//
//   - Only an answer that says so, for this hostname and action and of late, lets
//     a client pass. Whatever else happens gives nothing, and hurts nobody.
//   - A service that is slow, down or gone mad costs a bounded time, a bounded
//     number of bytes and a bounded number of requests at once.
//   - The client's address is not handed on. The services know it anyhow, from
//     the browser, if they are asked by one at all.
//
// # Sources
//
//   - https://developers.cloudflare.com/turnstile/get-started/server-side-validation/
//   - https://docs.hcaptcha.com/#verify-the-user-response-server-side
//   - https://developers.google.com/recaptcha/docs/verify
package siteverify

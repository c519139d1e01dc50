// Package botauth signs requests, so that sites can tell a crawler from others that use its name, and verifies such
// signatures.
//
// It follows draft-ietf-webbotauth-httpsig-protocol-01 (Web Bot Auth, October 2026), a profile of HTTP Message
// Signatures (RFC 9421): a signature by Ed25519 (RFC 8032) covers "@authority" and a member of the field
// Signature-Agent, whose value is the URL of the directory, a JSON Web Key Set with the public keys. The key id is the
// thumbprint of the key (RFC 7638; RFC 8037, appendix A.3). A directory may prove that its host has the private keys
// by signatures of its own over "@authority" of the request and Content-Digest. The paper knows nothing of this.
//
// # Departure
//
// The draft would have each request signed for itself. A Signer signs once for each authority and three quarters of the
// life of a signature, and repeats that signature, because a signature takes about 18 µs and a lookup 0.06 µs. Such a
// signature has no nonce, since a nonce that is sent twice is none; the draft requires none. A site that wants one asks
// for it by Accept-Signature (RFC 9421, 5), and Signer.Answer makes a signature for that single request.
//
// # Keys
//
// A key file is a list of PKCS#8 keys in PEM (RFC 7468), newest first, which openssl reads too. A line before a key
// says when it begins to sign, so that a new key can be in the directory before verifiers meet it. An older key stays
// in the directory until its last signature has expired. Private keys are in memory and in the key file alone; no
// method prints them.
//
// # Concurrency and memory
//
// A Signer is safe for concurrent use and owns no goroutines. All other functions are pure, but for ReadKeys,
// CreateKeys and ReplaceKeys, which use the key file. A Signer keeps the signatures of at most 2 * signedHosts
// authorities, about 300 bytes each. Verify and the parsers bound what they accept by named constants.
package botauth

import "time"

const (
	// Tag is the tag of signatures of requests.
	Tag = "web-bot-auth"
	// DirectoryTag is the tag of signatures of a directory.
	DirectoryTag = "http-message-signatures-directory"
	// DirectoryPath is the well-known path of a directory.
	DirectoryPath = "/.well-known/http-message-signatures-directory"
	// DirectoryType is the media type of a directory at that path.
	DirectoryType = "application/http-message-signatures-directory+json"

	// Life is how long a signature is valid, by default and at most. The draft recommends at most 24 hours, others a
	// minute: it is how long whoever reads a request can send its signature to the same host. A longer life would save
	// nothing: with the paper's delay of 40 s, a signature of 18 µs serves the 22 requests of a window to a host, which
	// is 0.8 µs for each.
	Life = 20 * time.Minute
	// MinLife is the shortest life: 30 s of it are left when the last request of a window is signed, for its connection
	// and for clocks that differ. With it, a signature serves two requests at the paper's delay, 9 µs for each.
	MinLife = 2 * time.Minute
)

// window returns how long a Signer repeats a signature: a quarter of the life is left when the last request is signed.
func window(life time.Duration) time.Duration { return life * 3 / 4 }

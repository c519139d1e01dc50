package crawllog

// Rights are the statements about the use of a response: those of the robots.txt and the tdmrep.json when the URL was
// admitted, and those of the response itself. "" is none. The constants below number them.
type Rights [NumRights]string

// Statements of Rights.
const (
	RightsDigest     = iota // of the robots.txt, as its WARC-Payload-Digest
	RightsFetched           // when it was fetched, RFC 3339 in UTC
	RightsGroup             // whose rules are in force: own, * or none
	RightsRule              // the line that decided
	RightsCrawlDelay        // seconds
	RightsSignal            // Content-Signal
	RightsUsage             // Content-Usage
	RightsLicense           // URLs
	RightsAI                // AI bots whose own groups disallow the URL
	RightsCut               // "yes": limits have removed something from these statements
	RightsValues            // directives of robots metas and X-Robots-Tag
	RightsTDM               // tdm-reservation: 0 or 1
	RightsTDMPolicy         // URL
	RightsRefused           // uses that --usage marks or drops and the site refuses
	RightsTDMFile           // what tdmrep.json says: 0 or 1
	NumRights
)

// RightsNames are the names of the statements in the log and in tables.
var RightsNames = [NumRights]string{"robots_digest", "robots_fetched", "robots_group", "robots_rule",
	"robots_crawl_delay", "content_signal", "content_usage", "license", "ai_disallowed", "rights_cut", "robots_values",
	"tdm_reservation", "tdm_policy", "usage", "tdm_file"}

// maxRight bounds a statement in the log, in bytes of JSON. The longest list of bots has about 450.
const maxRight = 600

func (r *Rights) append(dst []byte) []byte {
	for i, text := range r {
		if text != "" {
			dst = append(append(append(dst, `,"`...), RightsNames[i]...), `":`...)
			dst = appendString(dst, text, maxRight)
		}
	}
	return dst
}

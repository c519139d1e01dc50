package e2e

import (
	"testing"
)

// TestPriority changes the priority by its form: the page sends no weights that are no numbers, shows the
// error of the server, what is in force, and the change in the list; the button of the flags ends it.
func TestPriority(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	c := startChromium(t)
	p := open(ctx, t, c, laptop, "light", "priority", serveMock(t)+"/healthy/")
	p.until("the page is connected", "document.querySelector('#fresh').dataset.level === 'ok'")
	const form = "document.querySelector('#control-cards select[name=priority]').form"
	set := func(weights string) {
		p.run("document.querySelector('#control-cards input[name=weights]').value = '', 0", nil)
		p.enter(element("#control-cards input[name=weights]"), weights)
		p.click(form + ".querySelector('.buttons button')")
	}
	inForce := func(words string) {
		p.until("in force: "+words, form+".closest('.card').querySelector('.sub').textContent === "+
			quote("In force: "+words+"."))
	}
	p.run(form+".scrollIntoView(), 0", nil) // what is not visible is not asked for
	inForce("the priority set by flags")
	set("8 x")
	p.until("a weight that is no number is refused",
		"document.querySelector('#toasts').textContent.includes('whole number')")
	p.run(form+".elements.priority.value = 'depth', 0", nil)
	set("3 1")
	p.tolerate("422|401")
	confirm(p, "Change")
	p.until("a token is wanted", "document.querySelector('dialog[open] input[type=password]')")
	enterToken(p, mockToken)
	p.until("the error of the server is shown",
		"document.querySelector('dialog.question .error').textContent.includes('want 4 weights')")
	p.click(button("dialog.question[open]", "Cancel"))
	set("8 4 2 1")
	confirm(p, "Change")
	inForce("depth, weights 8 4 2 1")
	p.run("document.querySelector('#changes').scrollIntoView(), 0", nil)
	p.until("the change is in the list",
		"document.querySelector('#changes').textContent.includes('depth, weights 8 4 2 1')")
	p.click("[..." + form + ".querySelectorAll('button')].find((b) => b.textContent === 'Back to the flags')")
	confirm(p, "Use it")
	inForce("the priority set by flags")
}

package tabular_test

import (
	"fmt"
	"os"

	"drumbeat/internal/tabular"
)

func Example() {
	w, err := tabular.NewStream(os.Stdout, tabular.Options{Format: tabular.JSONL, Columns: []tabular.Column{
		{Name: "host", Type: tabular.String},
		{Name: "urls", Type: tabular.Int64, Nullable: true},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, row := range [][]tabular.Value{
		{tabular.Str("a.example"), tabular.Int(3)},
		{tabular.Str("b.example"), tabular.Null},
	} {
		if err := w.Write(row); err != nil {
			fmt.Println(err)
			break
		}
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"host":"a.example","urls":3}
	// {"host":"b.example","urls":null}
}

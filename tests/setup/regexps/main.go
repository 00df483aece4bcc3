// What Go's regexp says: for each line of JSON, whether the pattern is found in each text, or why it is none.
package main

import (
	"encoding/json"
	"os"
	"regexp"
)

func main() {
	lines, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var asked struct {
			Pattern string
			Texts   []string
		}
		if lines.Decode(&asked) != nil {
			return
		}
		found, message := []bool{}, ""
		if compiled, err := regexp.Compile(asked.Pattern); err != nil {
			message = err.Error()
		} else {
			for _, text := range asked.Texts {
				found = append(found, compiled.MatchString(text))
			}
		}
		answers.Encode(map[string]any{"Error": message, "Found": found})
	}
}

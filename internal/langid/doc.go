// Package langid tells the language of a text.
//
// # Method
//
// Texts in a script that one language writes have that language: Japanese, Korean, and the list in scripts. The
// others are classified by a naive Bayes classifier of byte n-grams, with the model of py3langid (Barbaresi; after Lui
// and Baldwin, "langid.py: An Off-the-shelf Language Identification Tool", ACL 2012): 139 languages, and a class for
// what is no language. Where the model lacks a language, it takes a related one for it. Then the trigram profiles of
// whatlanggo (after Cavnar and Trenkle, "N-Gram-Based Text Categorization", SDAIR 1994) decide between the two, and
// they also answer if the model is unsure and they know a language that it lacks.
//
// docs/how-it-works/benchmarks.md compares the detectors that were tried.
//
// # Bounds
//
// Language reads three pieces of a text, 1,500 bytes. The model takes 20 MB of RAM from the first call on.
package langid

// The contents of files, judged by their names and their first bytes.
#include "data/files/sniffed_file.h"

#include <gmock/gmock.h>

#include "accrue/data/source.h"
#include "data/files/sniffed_format.h"
#include "data/folder.h"
#include "data/refusal.h"

namespace accrue::data {
namespace {

using ::testing::AllOf;
using testing::fetch;
using testing::Folder;
using ::testing::HasSubstr;
using testing::open;
using testing::refusal;
using testing::values;

TEST(SniffedFormat, IsToldByTheFirstLine) {
  using enum SniffedFormat;
  const std::pair<const char*, SniffedFormat> rows[] = {
      {"", text},
      {"\n \r\n", text},
      {"words", text},
      {"{\"text\": \"a\"}", json_lines},
      {"{\"text\": \"a\"}\n", json_lines},
      {"\n\r\n  {\"text\": \"a\"}\r\nwhat follows", json_lines},
      {"\xef\xbb\xbf{\"text\": \"a\"}\n", json_lines},
      {"{}\n", json_lines},
      {"{\"a\": {\"b\": [1]}}\n{", json_lines},
      {"{\"text\": \"a\"} more\n", json_document},
      {"{\"text\": \"a\n", json_document},
      {"{\n \"a\": 1\n}\n", json_document},
      {"{\n\n\"a\"\n: 1}", json_document},
      {"{\"a\\\"\": NaN}\n", json_document},
      {"[{\"a\": 1}]", json_document},
      {"[\n  {\n    \"a\": 1}]", json_document},
      {"{{ template }}\n", text},
      {"{% if x %}\n", text},
      {"{ x = 1; }\n", text},
      {"{\n  return 1;\n}", text},
      {"{\"words\"}\n", text},
      {"[section]\nkey = 1\n", text},
      {"[\"a\", \"b\"]\n", text},
      {"[1, 2]\n", text},
      {"[link](http://a)", text},
      {"\"text\"\n", text},
      {"1\n", text},
      {"null\n", text},
      {"# {\"text\": \"a\"}\n", text}};
  for (const auto& [bytes, expected] : rows)
    EXPECT_EQ(static_cast<int>(sniff_format(bytes, true)), static_cast<int>(expected)) << bytes;
}

TEST(SniffedFormat, IsUnclearWithoutTheWholeLine) {
  using enum SniffedFormat;
  EXPECT_EQ(sniff_format("{\"text\": \"a\"}", false), unclear);
  EXPECT_EQ(sniff_format("{\"text\": \"a\"}\n", false), json_lines);
  EXPECT_EQ(sniff_format("words", false), text);
  EXPECT_EQ(sniff_format("  \n", false), unclear);
  EXPECT_EQ(sniff_format(std::string(most_sniffed_bytes, '\n'), false), text);
  EXPECT_EQ(sniff_format(std::string(most_sniffed_bytes, '{'), false), unclear);
}

constexpr const char* two_lines = "{\"text\": \"ab\"}\n{\"text\": \"cde\"}\n";

TEST(SniffedFile, LinesOfJsonAreSamplesWhateverTheFileIsCalled) {
  const Folder folder;
  for (const char* name :
       {"a.jsonl", "a.JSONL", "a.jsonlines", "a.json-lines", "a.ndjson", "a.NDJSON", "a.ldjson",
        "a.jl", "a.jsonl.1", "a.ndjson.20", "a.jsonl.txt", "a.jsonl.bak", "a.txt", "a.log",
        "a.yaml", "a", "a.b.c"}) {
    const auto source = open(folder.write(name, two_lines), 8);
    EXPECT_EQ(source->size(), 2) << name;
    EXPECT_EQ(bytes_to_text(values(fetch(*source, {1}).inputs)), "cd") << name;
    EXPECT_THAT(source->fingerprint(), HasSubstr("jsonl")) << name;
  }
  const auto as_text = open(folder.write("a.jsonl", two_lines), 8, Format::text);
  EXPECT_EQ(bytes_to_text(values(fetch(*as_text, {0}).inputs)), "{\"text\":");
}

TEST(SniffedFile, NamesOfLinesHoldLines) {
  const Folder folder;
  for (const char* name : {"a.jsonl", "a.ndjson", "a.jsonlines", "a.ldjson", "a.jsonl.1"})
    EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(folder.write(name, "words\n"), 2); }),
                HasSubstr(std::string(name) + ":1"));
  for (const char* name : {"a.jl", "a.txt", "a", "a.1", "a.jsonl.b"})
    EXPECT_EQ(open(folder.write(name, "words"), 2)->size(), 2) << name << " is text";
}

TEST(SniffedFile, JsonThatIsNoLinesIsRefusedByName) {
  const Folder folder;
  for (const char* name : {"a.json", "a.JSON", "a.jsonc", "a.json5", "a.geojson", "a.jsonld",
                           "a.ipynb", "a.csv", "a.CSV", "a.tsv", "a.xml"}) {
    const auto file = folder.write(name, two_lines);
    EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(file, 4); }),
                AllOf(HasSubstr(file + ": "), HasSubstr("trains as the text it is"),
                      HasSubstr("data.format = \"text\"")));
    EXPECT_NO_THROW(open(file, 4, Format::text)) << "stated";
    EXPECT_EQ(open(file, 4, Format::jsonl)->size(), 2) << "stated";
  }
  for (const char* content :
       {"{\n  \"text\": \"a\"\n}\n", "[{\"text\": \"a\"}]", "[\n {\"text\": \"a\"}\n]\n",
        "{\"text\": \"a\"\n", "{\"text\": 'a'}\n"}) {
    const auto file = folder.write("a.txt", content);
    EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(file, 4); }),
                AllOf(HasSubstr(file + ": JSON"), HasSubstr("data.format")))
        << content;
  }
}

TEST(SniffedFile, LinesBesideTextAreNotMixed) {
  const Folder folder;
  folder.write("a.txt", "words");
  folder.write("b.txt", two_lines);
  const auto message = refusal(Error::Kind::usage, [&] { open(folder.path("*.txt"), 4); });
  EXPECT_THAT(message, AllOf(HasSubstr("a.txt (text)"), HasSubstr("b.txt (jsonl)")));
  EXPECT_NO_THROW(open(folder.path("*.txt"), 4, Format::text));
  folder.write("a.txt", two_lines);
  EXPECT_EQ(open(folder.path("*.txt"), 4)->size(), 4);
}

TEST(SniffedFile, AFirstLineWithoutAnEndIsRefused) {
  const Folder folder;
  const auto file = folder.write("a.txt", "{" + std::string(std::size_t{2} << 20, 'x'));
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(file, 4); }),
              HasSubstr(file + ": a first line of more than 1 MiB"));
  const auto lines = folder.write(
      "b.txt", "{\"text\": \"" + std::string(10'000, 'x') + "\"}\n{\"text\": \"ab\"}\n");
  EXPECT_EQ(open(lines, 10'000)->size(), 2) << "more than is read at first";
}

}  // namespace
}  // namespace accrue::data

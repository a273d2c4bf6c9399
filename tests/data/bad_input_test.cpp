#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/core/error.h"
#include "accrue/data/source.h"
#include "folder.h"
#include "refusal.h"

namespace accrue::data {
namespace {

using testing::fetch;
using testing::Folder;
using ::testing::HasSubstr;
using testing::header;
using testing::open;
using testing::packed;
using testing::refusal;

struct BadTokenFile {
  const char* name;
  std::string content;
  std::string expected_message;
};

class BadTokenFiles : public ::testing::TestWithParam<BadTokenFile> {};

TEST_P(BadTokenFiles, AreRefusedByName) {
  const Folder folder;
  const std::string file = folder.write("bad.bin", GetParam().content);
  const auto message = refusal(Error::Kind::usage, [&] { open(file, 4); });
  EXPECT_THAT(message, HasSubstr("data.train"));
  EXPECT_THAT(message, HasSubstr(file));
  EXPECT_THAT(message, HasSubstr(GetParam().expected_message));
}

const std::string ten_tokens = packed<std::uint16_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9});

INSTANTIATE_TEST_SUITE_P(
    Table, BadTokenFiles,
    ::testing::Values(
        BadTokenFile{"empty", "", "an empty file"},
        BadTokenFile{"odd_size", ten_tokens + "x", "21 bytes, an odd number"},
        BadTokenFile{"single_byte", "x", "1 bytes, an odd number"},
        BadTokenFile{"header_cut_short", header(20240520, 1, 10).substr(0, 1000), "1000 bytes"},
        BadTokenFile{"only_the_magic_number", header(20240520, 1, 10).substr(0, 4), "4 bytes"},
        BadTokenFile{"truncated", header(20240520, 1, 11) + ten_tokens, "expected 1046 bytes"},
        BadTokenFile{"longer_than_stated", header(20240520, 1, 9) + ten_tokens, "received"},
        BadTokenFile{"half_a_token_missing", header(20240520, 1, 10) + ten_tokens.substr(1),
                     "1043 bytes"},
        BadTokenFile{"negative_count", header(20240520, 1, -1) + ten_tokens, "says -1"},
        BadTokenFile{"no_tokens", header(20240520, 1, 0), "says 0"},
        BadTokenFile{"unknown_version", header(20240520, 2, 10) + ten_tokens, "version 2"},
        BadTokenFile{"unknown_llama3_version", header(20240801, 1, 5) + ten_tokens, "version 1"},
        BadTokenFile{"width_of_another_magic", header(20240801, 7, 10) + ten_tokens,
                     "expected 1064 bytes"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(BadTokenFiles, OfWhichOneIsGoodAreStillRefused) {
  const Folder folder;
  folder.write("a.bin", ten_tokens);
  folder.write("b.bin", "");
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(folder.path("*.bin"), 4); }),
              HasSubstr("b.bin"));
}

TEST(BadInput, TooLittleForOneSample) {
  const Folder folder;
  const std::string file = folder.write("a.txt", "abcd");
  const auto message = refusal(Error::Kind::usage, [&] { open(file, 4); });
  EXPECT_THAT(message, HasSubstr("at least 5 tokens"));
  EXPECT_THAT(message, HasSubstr("4 in 1 file(s)"));
  EXPECT_THAT(message, HasSubstr(file));
  EXPECT_EQ(open(file, 3)->size(), 1);
  const std::string empty = folder.write("empty.txt", "");
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(empty, 4); }), HasSubstr(empty));
}

TEST(BadInput, EmptyFilesAreAnsweredWithWhatToPutThere) {
  const Folder folder;
  folder.write("a.txt", "");
  for (const char* name : {"a.txt", "a.jsonl", "a.bin"}) {
    const std::string file = folder.write(name, "");
    EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(file, 4); }),
                HasSubstr(file + ": an empty file; try text in it, lines of JSON (.jsonl)"));
  }
  folder.write("b.txt", "");
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(folder.path("*.txt"), 4); }),
              HasSubstr("2 empty files"));
}

TEST(BadInput, AnEmptyFolderIsAnsweredWithWhatToPutThere) {
  const Folder folder;
  folder.write("empty/.hidden", "x");
  folder.write("full/a.md", "x");
  const std::string advice =
      "putting files into " + folder.path("empty") + ", which holds none: text";
  for (const char* glob : {"empty", "empty/**", "empty/*.txt"})
    EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(folder.path(glob), 4); }), HasSubstr(advice))
        << glob;
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(folder.path("full/*.txt"), 4); }),
              ::testing::Not(HasSubstr("putting files")));
}

TEST(BadInput, NothingMatches) {
  EXPECT_THAT(refusal(Error::Kind::usage, [] { open("no/such/*.txt", 4); }),
              HasSubstr("no/such/*.txt"));
}

TEST(BadInput, FormatsMixed) {
  const Folder folder;
  folder.write("a.txt", "abcdefgh");
  folder.write("b.bin", ten_tokens);
  const auto message = refusal(Error::Kind::usage, [&] { open(folder.path("*"), 4); });
  EXPECT_THAT(message, HasSubstr("a.txt"));
  EXPECT_THAT(message, HasSubstr("b.bin"));
  EXPECT_NO_THROW(open(folder.path("*"), 4, Format::text));
}

/// They would be trained on as text, which they are not, unless the format is stated as text.
TEST(BadInput, FilesThatAreNoText) {
  const Folder folder;
  const std::pair<const char*, const char*> cases[] = {
      {"a.txt.gz", "compressed"}, {"a.ZIP", "an archive"},        {"a.arrow", "a table in columns"},
      {"a.json", "(.jsonl"},      {"a.csv", "data.format"},       {"a.npy", "arrays"},
      {"a.pdf", "a document"},    {"model.safetensors", "arrays"}};
  for (const auto& [name, expected] : cases) {
    const auto file = folder.write(name, "some bytes of it");
    EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(file, 4); }),
                ::testing::AllOf(HasSubstr(file), HasSubstr(expected)));
    EXPECT_NO_THROW(open(file, 4, Format::text)) << "stated";
  }
  const auto binary = folder.write("program", std::string("text and \0 bytes", 16));
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(binary, 4); }), HasSubstr("zero bytes"));
  EXPECT_NO_THROW(open(binary, 4, Format::text));
  for (const char* name : {"a.txt", "a.py", "README", "a.gzip.md", ".json"})
    EXPECT_NO_THROW(open(folder.write(name, "some bytes of it"), 4)) << name;
}

/// Even if accrue was built without Parquet.
TEST(BadInput, ATableThatIsNone) {
  const Folder folder;
  const auto file = folder.write("a.parquet", "some bytes of it");
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { open(file, 4); }),
              ::testing::AllOf(HasSubstr(file), HasSubstr("Parquet"), HasSubstr(".jsonl")));
  EXPECT_NO_THROW(open(file, 4, Format::text)) << "stated";
}

TEST(BadInput, AContextOfNothing) {
  const Folder folder;
  EXPECT_THROW(open(folder.write("a.txt", "abcdefgh"), 0), Error);
}

TEST(BadInput, TokenOutsideTheVocabularyIsNamedWithFileAndPosition) {
  const Folder folder;
  folder.write("a.bin", packed<std::uint16_t>({0, 1, 2, 3, 4, 5}));
  const std::string bad =
      folder.write("b.bin", header(20240520, 1, 6) + packed<std::uint16_t>({0, 1, 99, 100, 4, 5}));
  const auto source = open(folder.path("*.bin"), 2, std::nullopt, 100);
  EXPECT_NO_THROW(fetch(*source, {0, 1, 2}));
  const auto message = refusal(Error::Kind::usage, [&] { fetch(*source, {4}); });
  EXPECT_THAT(message, HasSubstr(bad));
  EXPECT_THAT(message, HasSubstr("id 100 at token 3"));
  EXPECT_NO_THROW(fetch(*open(folder.path("*.bin"), 2, std::nullopt, 101), {4}));
  EXPECT_NO_THROW(fetch(*open(folder.path("*.bin"), 2, std::nullopt, 0), {4}));
}

TEST(BadInput, TextOutsideTheVocabulary) {
  const Folder folder;
  const auto source = open(folder.write("a.txt",
                                        "abc\xff"
                                        "efgh"),
                           4, std::nullopt, 128);
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { fetch(*source, {0}); }),
              HasSubstr("id 255 at token 3"));
}

TEST(BadInput, FileThatShrankSinceItWasOpened) {
  const Folder folder;
  const std::string file = folder.write("a.txt", std::string(1000, 'x'));
  const auto source = open(file, 9);
  const auto before_any_read = open(file, 9);
  fetch(*source, {100});
  std::filesystem::resize_file(file, 500);
  const auto message = refusal(Error::Kind::runtime, [&] { fetch(*source, {3}); });
  EXPECT_THAT(message, HasSubstr(file));
  EXPECT_THAT(message, HasSubstr("expected 1000 bytes"));
  EXPECT_THAT(message, HasSubstr("received 500 bytes"));
  EXPECT_THAT(refusal(Error::Kind::runtime, [&] { fetch(*before_any_read, {3}); }),
              HasSubstr("received 500 bytes"));
}

TEST(BadInput, FileThatWasWrittenToSinceItWasOpened) {
  const Folder folder;
  for (const Format format : {Format::text, Format::tokens}) {
    const std::string file = folder.write("a", std::string(1000, 'a'));
    const auto source = open(file, 8, format);
    EXPECT_NO_THROW(fetch(*source, {0})) << "the control";
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary) << 'b';
    // Within the resolution of the clock two writes look like one.
    std::filesystem::last_write_time(
        file, std::filesystem::last_write_time(file) + std::chrono::seconds(1));
    EXPECT_THAT(refusal(Error::Kind::runtime, [&] { fetch(*source, {0}); }),
                AllOf(HasSubstr(file), HasSubstr("written to")));
  }
}

TEST(BadInput, AllTokensAreCheckedBeforeAnyIsNeeded) {
  const Folder folder;
  // More than two of the pieces that threads take, from two files.
  std::vector<std::int64_t> ids(3 << 20, 6);
  const std::string first = folder.write("a.bin", packed<std::uint16_t>(ids));
  EXPECT_NO_THROW(open(first, 8, Format::tokens, 7)->check_contents()) << "the control";
  ids[(2 << 20) + 5] = 9;
  ids[(1 << 20) + 77] = 8;
  const std::string second = folder.write("b.bin", packed<std::uint16_t>(ids));
  const auto source = open(folder.path("*.bin"), 8, Format::tokens, 7);
  for (int again = 0; again < 2; ++again)
    EXPECT_THAT(
        refusal(Error::Kind::usage, [&] { source->check_contents(); }),
        AllOf(HasSubstr(second), HasSubstr("id 8 at token " + std::to_string((1 << 20) + 77))));
  EXPECT_NO_THROW(open(folder.path("*.bin"), 8, Format::tokens, 10)->check_contents());
  EXPECT_NO_THROW(open(folder.path("*.bin"), 8, Format::tokens)->check_contents())
      << "no vocabulary";
}

TEST(BadInput, FileThatIsGone) {
  const Folder folder;
  const std::string file = folder.write("a.txt", std::string(1000, 'x'));
  const auto source = open(file, 9);
  std::filesystem::remove(file);
  EXPECT_THAT(refusal(Error::Kind::runtime, [&] { fetch(*source, {0}); }), HasSubstr(file));
}

}  // namespace
}  // namespace accrue::data

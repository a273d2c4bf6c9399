// Tokenized text and JSON lines: read by parts, saved for the next time, and written as token
// files.
#include <gmock/gmock.h>

#include <atomic>
#include <random>
#include <thread>

#include "core/atomic_file.h"
#include "data/folder.h"
#include "data/planted_tokenizers.h"
#include "data/refusal.h"
#include "data/text/sources/sample_index.h"
#include "data/text/tokens/text_parts.h"
#include "data/text/tokens/write_token_file.h"

namespace accrue::data {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int64_t>;
using OpenTokenizer = std::shared_ptr<const Tokenizer>;

OpenTokenizer open_tokenizer(const Folder& folder, const nlohmann::json& stated,
                             const std::string& name = "t") {
  return Tokenizer::open(folder.write(name + "/tokenizer.json", stated.dump()), "data.tokenizer");
}

SourceOptions reading(const std::string& glob, const OpenTokenizer& tokenizer,
                      const std::string& cache = "") {
  return {.globs = {glob},
          .tokenizer = [tokenizer] { return tokenizer; },
          .cache = cache,
          .context = 4};
}

/// Text of short lines, some of which are empty, indented or end with spaces.
std::string drawn_text(std::uint64_t seed, std::size_t bytes) {
  std::mt19937_64 draw(seed);
  constexpr std::string_view letters = "aaabbb ed\n\n  \t.\r";
  std::string text;
  while (text.size() < bytes)
    text +=
        draw() % 40 == 0 ? "\u4e2d\u00a0\u3000" : std::string(1, letters[draw() % letters.size()]);
  return text;
}

/// The stream's tokens, whose samples are T inputs and the last one's target.
Ids tokens_of(const Source& source) {
  Ids tokens;
  for (std::int64_t i = 0; i < source.size(); ++i) {
    const batch::MicroBatch sample = source.fetch(std::span(&i, 1));
    const Ids inputs = values(sample.inputs), targets = values(sample.targets);
    tokens.insert(tokens.end(), inputs.begin(), inputs.end());
    if (i + 1 == source.size()) tokens.push_back(targets.back());
  }
  return tokens;
}

/// Without the lock.
std::size_t files_in(const std::filesystem::path& folder) {
  std::size_t files = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    files += entry.path().filename() != ".lock";
  return files;
}

TEST(TextTokens, AreThoseOfEachFileJoined) {
  const Folder folder;
  const OpenTokenizer tokenizer = open_tokenizer(folder, planted_gpt2());
  const std::string first = "abab ab\n\n\nab", second = "ed a";
  folder.write("text/1.txt", first);
  folder.write("text/2.txt", "");
  folder.write("text/3.txt", second);
  const auto source = open_source(reading(folder.path("text/*"), tokenizer), "data.train");
  Ids expected = tokenizer->encode(first);
  for (const std::int64_t id : tokenizer->encode(second)) expected.push_back(id);
  expected.resize(static_cast<std::size_t>(source->size() * 4 + 1));
  EXPECT_EQ(tokens_of(*source), expected);
  EXPECT_EQ(source->vocab(), tokenizer->vocab());
  EXPECT_EQ(source->tokenizer(), tokenizer);
  EXPECT_TRUE(source->has_text());
  EXPECT_EQ(source->files().size(), 3u) << "the text is what the data are, not what was made of it";
}

TEST(TextTokens, AreKnownByTextAndTokenizer) {
  const Folder folder;
  folder.write("a.txt", drawn_text(1, 500));
  const auto fingerprint = [&](const OpenTokenizer& tokenizer) {
    return open_source(reading(folder.path("a.txt"), tokenizer), "data.train")->fingerprint();
  };
  const std::string one = fingerprint(open_tokenizer(folder, planted_gpt2(), "one"));
  EXPECT_EQ(one, fingerprint(open_tokenizer(folder, planted_gpt2(), "same")));
  EXPECT_NE(one, fingerprint(open_tokenizer(folder, planted_one_word(), "other")));
  EXPECT_THAT(one, ::testing::StartsWith("text, tokenizer "));
  folder.write("ends/tokenizer_config.json", R"({"eos_token": "ab"})");
  EXPECT_NE(one, fingerprint(open_tokenizer(folder, planted_gpt2(), "ends")));
}

class PartsOfText : public ::testing::TestWithParam<nlohmann::json (*)()> {};

TEST_P(PartsOfText, HaveTheTokensOfTheWhole) {
  constexpr std::size_t part_bytes = 5000;
  const Folder folder;
  const OpenTokenizer tokenizer = open_tokenizer(folder, GetParam()());
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const std::string text = drawn_text(seed, 60'000);
    const FilePool files({folder.write("text", text)}, "t");
    const std::string what = "t";
    TextParts parts(files, *tokenizer, what, part_bytes);
    std::string joined;
    Ids ids;
    int count = 0;
    for (; const auto part = parts.next(); ++count) {
      const Ids own = tokenizer->encode(*part);
      ids.insert(ids.end(), own.begin(), own.end());
      joined += *part;
    }
    EXPECT_EQ(joined, text);
    EXPECT_EQ(ids, tokenizer->encode(text)) << "seed " << seed;
    if (GetParam() == planted_with_prefix)
      EXPECT_EQ(count, 1) << "each part would begin with a space of its own";
    else
      EXPECT_GT(count, 5);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, PartsOfText,
                         ::testing::Values(planted_gpt2, planted_one_word, planted_with_prefix));

TEST(PartsOfText, WouldDifferAtOtherPlaces) {
  const Folder folder;
  const OpenTokenizer words = open_tokenizer(folder, planted_gpt2(), "words"),
                      whole = open_tokenizer(folder, planted_one_word(), "whole");
  const auto differs = [](const Tokenizer& tokenizer, const std::string& a, const std::string& b) {
    Ids halves = tokenizer.encode(a);
    for (const std::int64_t id : tokenizer.encode(b)) halves.push_back(id);
    return halves != tokenizer.encode(a + b);
  };
  EXPECT_TRUE(differs(*words, "a\n\n", "b")) << "of two line feeds the last is a word of its own";
  EXPECT_TRUE(differs(*whole, "a\n", "b")) << "a merge reaches over the line's end";
}

TEST(TextTokens, AreKeptForTheNextTime) {
  const Folder folder;
  const OpenTokenizer tokenizer = open_tokenizer(folder, planted_gpt2());
  folder.write("a.txt", drawn_text(3, 9000));
  int made = 0;
  SourceOptions options = reading(folder.path("a.txt"), tokenizer, folder.path("kept"));
  options.tell_progress = [&](std::int64_t done, std::int64_t all) {
    EXPECT_LE(done, all);
    ++made;
  };
  const Ids first = tokens_of(*open_source(options, "data.train"));
  EXPECT_EQ(made, 1);
  EXPECT_EQ(files_in(folder.path("kept")), 1u);
  EXPECT_EQ(tokens_of(*open_source(options, "data.train")), first);
  EXPECT_EQ(made, 1) << "not made again";

  std::string other = drawn_text(3, 9000);
  other[4000] = other[4000] == 'a' ? 'b' : 'a';
  folder.write("a.txt", other);
  EXPECT_NE(tokens_of(*open_source(options, "data.train")), first) << "of the same length";
  EXPECT_EQ(made, 2);
}

TEST(TextTokens, WithoutAPlaceToKeepThemAreTemporary) {
  const Folder folder, temporary;
  const OpenTokenizer tokenizer = open_tokenizer(folder, planted_gpt2());
  folder.write("a.txt", drawn_text(4, 3000));
  ::setenv("TMPDIR", temporary.root().c_str(), 1);
  {
    const auto source = open_source(reading(folder.path("a.txt"), tokenizer), "data.train");
    EXPECT_EQ(files_in(temporary.root()), 1u);
    EXPECT_TRUE(source->remarks().empty());
    folder.write("file", "");
    const auto unkept = open_source(
        reading(folder.path("a.txt"), tokenizer, folder.path("file/below")), "data.train");
    EXPECT_EQ(tokens_of(*unkept), tokens_of(*source));
    EXPECT_THAT(unkept->remarks(), ElementsAre(HasSubstr("not kept in")));
  }
  ::unsetenv("TMPDIR");
  EXPECT_EQ(files_in(temporary.root()), 0u);
}

TEST(TextTokens, OfWhatIsNoUtf8AreRefusedWithFileAndPlace) {
  const Folder folder;
  const OpenTokenizer tokenizer = open_tokenizer(folder, planted_gpt2());
  folder.write("a/1.txt", "fine text of some length");
  folder.write("a/2.txt", std::string("ab\xff") + "cd");
  EXPECT_THAT(refusal(Error::Kind::usage,
                      [&] {
                        open_source(reading(folder.path("a/*"), tokenizer, folder.path("kept")),
                                    "data.train");
                      }),
              AllOf(HasSubstr("2.txt"), HasSubstr("place 2"), HasSubstr("\"bytes\"")));
  EXPECT_EQ(files_in(folder.path("kept")), 0u);
}

TEST(JsonLines, WithATokenizerLearnWhereATextEnds) {
  const Folder folder;
  nlohmann::json stated = planted_gpt2();
  stated["model"]["vocab"].update({{"<s>", 300}, {"</s>", 301}});
  stated["added_tokens"] = {{{"id", 300}, {"content", "<s>"}, {"special", true}},
                            {{"id", 301}, {"content", "</s>"}, {"special", true}}};
  stated["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {300}}, {"tokens", {"<s>"}}}}}}};
  folder.write("t/tokenizer_config.json", R"({"eos_token": {"content": "</s>"}})");
  const OpenTokenizer tokenizer = open_tokenizer(folder, stated);
  folder.write("a.jsonl", R"({"text": "ab"})"
                          "\n"
                          R"({"prompt": "ab", "completion": " a"})"
                          "\n"
                          R"({"text": "ab</s>"})"
                          "\n");
  SourceOptions options = reading(folder.path("a.jsonl"), tokenizer, folder.path("kept"));
  options.context = 8;
  const std::int64_t ab = *tokenizer->id_of("ab"), space_a = tokenizer->encode(" a").front();
  for (const char* time : {"the first time", "from what was kept"}) {
    const auto source = open_source(options, "data.train");
    ASSERT_EQ(source->size(), 3) << time;
    const batch::MicroBatch text = fetch(*source, {0}), asked = fetch(*source, {1}),
                            ended = fetch(*source, {2});
    EXPECT_THAT(values(text.inputs), ElementsAre(300, ab));
    EXPECT_THAT(values(text.targets), ElementsAre(ab, 301));
    EXPECT_THAT(values(asked.inputs), ElementsAre(300, ab, space_a));
    EXPECT_THAT(values(asked.targets), ElementsAre(-100, space_a, 301));
    EXPECT_EQ(values(ended.targets), values(text.targets)) << "an end that is stated is the one";
    EXPECT_EQ(source->vocab(), tokenizer->vocab());
  }
  EXPECT_EQ(files_in(folder.path("kept")), 1u);
}

TEST(JsonLines, GoOnFromPromptToCompletion) {
  const Folder folder;
  const OpenTokenizer tokenizer = open_tokenizer(folder, planted_with_prefix());
  folder.write("a.jsonl", "{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n");
  SourceOptions options = reading(folder.path("a.jsonl"), tokenizer);
  options.context = 8;
  const auto source = open_source(options, "data.train");
  const batch::MicroBatch sample = fetch(*source, {0});
  Ids ids = values(sample.inputs);
  ids.push_back(values(sample.targets).back());
  EXPECT_EQ(tokenizer->decode(ids), " 2+2=4") << "one space before the text, and none within";
}

TEST(TextTokens, AreMadeOnceWhereSeveralWantThem) {
  const Folder folder;
  const OpenTokenizer tokenizer = open_tokenizer(folder, planted_gpt2());
  folder.write("a.txt", drawn_text(7, 200'000));
  std::atomic<int> made = 0;
  SourceOptions options = reading(folder.path("a.txt"), tokenizer, folder.path("kept"));
  options.tell_progress = [&](std::int64_t done, std::int64_t all) { made += done == all; };
  std::vector<Ids> found(4);
  std::vector<std::jthread> threads;
  for (Ids& ids : found)
    threads.emplace_back([&] { ids = tokens_of(*open_source(options, "data.train")); });
  threads.clear();
  for (const Ids& ids : found) EXPECT_EQ(ids, found.front());
  EXPECT_EQ(made, 1);
}

TEST(JsonLines, HaveAnIndexThatIsReadAsItWasWritten) {
  SampleIndex index{.begins = {0, 17, 40},
                    .lengths = {3, 9, 4},
                    .ends = {2, 3},
                    .too_short = 5,
                    .has_ids = false,
                    .has_text = true,
                    .has_counting_label = true};
  for (const std::vector<std::uint16_t>& parts : {std::vector<std::uint16_t>{}, {0, 1, 0}}) {
    index.parts = parts;
    const std::string bytes = to_bytes(index);
    EXPECT_EQ(index_of_bytes(bytes), index);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(index_of_bytes(std::string_view(bytes).substr(0, size))) << size;
    EXPECT_FALSE(index_of_bytes(bytes + "1"));
  }
  index.has_sharegpt = true;
  index.unread = {{.file = 0, .names = {"id", "\xc3\xa9 \"x\""}}, {.file = 1, .names = {"url"}}};
  EXPECT_EQ(index_of_bytes(to_bytes(index)), index);
  index.has_alpaca = true;
  EXPECT_EQ(index_of_bytes(to_bytes(index)), index);
  index.unread.back().file = 2;
  EXPECT_FALSE(index_of_bytes(to_bytes(index))) << "a file that is not there";
}

class TokenFiles : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(TokenFiles, HoldTheSamplesOfTheText) {
  const Folder folder;
  const OpenTokenizer tokenizer = open_tokenizer(folder, planted_with_id(GetParam()));
  folder.write("a.txt", drawn_text(5, 4000) + "<last>" + drawn_text(6, 2000));
  std::shared_ptr<const Source> text =
      open_source(reading(folder.path("a.txt"), tokenizer), "data.train");
  const std::int64_t cut = text->size() - 100;
  for (const auto& [begin, end] : {std::pair{std::int64_t{0}, cut}, std::pair{cut, text->size()}}) {
    const auto part = slice(text, begin, end);
    const std::string file = folder.path("part.bin");
    const std::int64_t count = write_token_file(*part, text->vocab(), file, "tokenize");
    const auto back = open(file, 4, Format::tokens, text->vocab());
    EXPECT_EQ(back->size(), part->size());
    EXPECT_EQ(tokens_of(*back), tokens_of(*part));
    EXPECT_EQ(count, static_cast<std::int64_t>(tokens_of(*part).size()));
    const std::uintmax_t bytes = std::filesystem::file_size(file),
                         ids = static_cast<std::uintmax_t>(count);
    EXPECT_EQ(bytes, text->vocab() > 65'535 ? 1024 + 4 * ids : 2 * ids);
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, TokenFiles, ::testing::Values(65'534, 65'535, 151'000));

TEST(TokenFiles, OfJsonLinesHoldTheirText) {
  const Folder folder;
  const OpenTokenizer tokenizer = open_tokenizer(folder, planted_gpt2());
  folder.write("a.jsonl", "{\"text\": \"ab ab\"}\n{\"text\": \"ed a\"}\n");
  const auto lines = open_source(reading(folder.path("a.jsonl"), tokenizer), "data.train");
  write_token_file(*lines, lines->vocab(), folder.path("a.bin"), "tokenize");
  Ids expected = tokenizer->encode("ab ab");
  for (const std::int64_t id : tokenizer->encode("ed a")) expected.push_back(id);
  EXPECT_EQ(read_file(folder.path("a.bin")), packed<std::uint16_t>(expected));

  folder.write("b.jsonl", "{\"prompt\": \"ab a\", \"completion\": \"ed\"}\n");
  const auto asked = open_source(reading(folder.path("b.jsonl"), tokenizer), "data.train");
  EXPECT_THAT(refusal(Error::Kind::usage,
                      [&] { write_token_file(*asked, 300, folder.path("b.bin"), "tokenize"); }),
              HasSubstr("a prompt"));
  folder.write("c.jsonl", "{\"text\": \"ab ed\", \"weight\": 0.5}\n");
  const auto weighted = open_source(reading(folder.path("c.jsonl"), tokenizer), "data.train");
  EXPECT_THAT(refusal(Error::Kind::usage,
                      [&] { write_token_file(*weighted, 300, folder.path("b.bin"), "tokenize"); }),
              HasSubstr("weight"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("b.bin")));
}

}  // namespace
}  // namespace accrue::data

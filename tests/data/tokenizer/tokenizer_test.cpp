// The meaning of a tokenizer.json that needs no other program to check, and what is refused.
// tokenizer_golden.py compares ids with Hugging Face's own.
#include "accrue/data/tokenizer.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/errors.h"
#include "support/sanitizers.h"

namespace accrue::data {
namespace {

using accrue::testing::usage_message;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Ids = std::vector<std::int64_t>;

/// Characters, and bytes for all others, as in Llama 2.
json of_characters() {
  json vocab{{"<unk>", 0}, {"a", 1}, {"b", 2}, {"ab", 3}, {"abab", 4}, {"▁", 5}};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    vocab[name] = 6 + byte;
  }
  return {{"added_tokens", {{{"id", 0}, {"content", "<unk>"}, {"special", true}}}},
          {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", {"a b", "ab ab"}}}}};
}

class TokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    file_ = std::filesystem::path(::testing::TempDir()) /
            ("tokenizer_" + std::string(info->name())) / "tokenizer.json";
    std::filesystem::create_directory(file_.parent_path());
  }
  void TearDown() override { std::filesystem::remove_all(file_.parent_path()); }

  std::shared_ptr<const Tokenizer> open(const std::string& content) const {
    std::ofstream(file_) << content;
    return Tokenizer::open(file_, "data.tokenizer");
  }
  std::shared_ptr<const Tokenizer> open(const json& stated) const { return open(stated.dump()); }
  std::string refused(const json& stated) const {
    return usage_message([&] { open(stated); });
  }
  /// The tokenizer with another value at a place.
  static json with(const char* place, json value) {
    json stated = of_characters();
    stated[json::json_pointer(place)] = std::move(value);
    return stated;
  }

  std::filesystem::path file_;
};

TEST_F(TokenizerTest, MergesTheFirstPairsFirst) {
  const auto tokenizer = open(of_characters());
  EXPECT_EQ(tokenizer->vocab(), 262);
  EXPECT_THAT(tokenizer->encode("ababab"), ElementsAre(4, 3));
  EXPECT_THAT(tokenizer->encode("aab b"), ElementsAre(1, 3, 5, 2));
  EXPECT_THAT(tokenizer->encode("é"), ElementsAre(6 + 0xc3, 6 + 0xa9));
  EXPECT_THAT(tokenizer->encode(""), IsEmpty());
  EXPECT_EQ(tokenizer->id_of("abab"), 4);
  EXPECT_EQ(tokenizer->id_of("none"), std::nullopt);
}

TEST_F(TokenizerTest, MergesLongWordsAsShortOnes) {
  const auto tokenizer = open(of_characters());
  std::string text;
  Ids expected;
  for (int i = 0; i < 1000; ++i) {
    text += i % 3 == 0 ? "ababb" : "abab";
    expected.push_back(4);
    if (i % 3 == 0) expected.push_back(2);
  }
  EXPECT_EQ(tokenizer->encode(text), expected);
}

TEST_F(TokenizerTest, TellsTokensBackAsTheyCome) {
  const auto tokenizer = open(of_characters());
  const std::string text = "ab é b\U0001f600";
  const Ids ids = tokenizer->encode(text);
  EXPECT_EQ(tokenizer->decode(ids), text);
  Tokenizer::Decoder decoder(*tokenizer);
  std::string said;
  for (const std::int64_t id : ids) {
    const std::string piece = decoder.add(id);
    EXPECT_EQ(piece.find("\xef\xbf\xbd"), std::string::npos) << "half a character";
    said += piece;
  }
  EXPECT_EQ(said + decoder.end(), text);
  EXPECT_EQ(decoder.add(6 + 0xc3), "");
  EXPECT_EQ(decoder.end(), "\xef\xbf\xbd") << "what never became one";
}

TEST_F(TokenizerTest, LeavesOutSpecialTokensWhereItIsAskedTo) {
  const auto tokenizer = open(of_characters());
  EXPECT_EQ(tokenizer->decode(Ids{1, 0, 2}), "a<unk>b");
  EXPECT_EQ(tokenizer->decode(Ids{1, 0, 2}, true), "ab");
}

TEST_F(TokenizerTest, RefusesTextThatIsNoUtf8) {
  const auto tokenizer = open(of_characters());
  EXPECT_THAT(usage_message([&] { tokenizer->encode("ab\xff"); }),
              AllOf(HasSubstr("UTF-8"), HasSubstr("place 2")));
  EXPECT_THAT(usage_message([&] { tokenizer->encode("ab\xc3"); }), HasSubstr("place 2"));
  EXPECT_THAT(usage_message([&] { tokenizer->encode("\xed\xa0\x80"); }), HasSubstr("place 0"))
      << "a surrogate";
}

TEST_F(TokenizerTest, RefusesIdsThatAreNoTokens) {
  const auto tokenizer = open(of_characters());
  for (const std::int64_t id : {-1, 262, 1 << 30})
    EXPECT_THAT(usage_message([&] { tokenizer->decode(Ids{id}); }), HasSubstr(std::to_string(id)));
}

TEST_F(TokenizerTest, RefusesKindsThatItDoesNotKnowByName) {
  EXPECT_THAT(refused(with("/model/type", "Unigram")), HasSubstr("\"Unigram\""));
  EXPECT_THAT(refused(with("/normalizer", {{"type", "BertNormalizer"}})),
              AllOf(HasSubstr("normalizer"), HasSubstr("\"BertNormalizer\"")));
  EXPECT_THAT(refused(with("/pre_tokenizer", {{"type", "UnicodeScripts"}})),
              AllOf(HasSubstr("pre_tokenizer"), HasSubstr("\"UnicodeScripts\"")));
  EXPECT_THAT(refused(with("/decoder", {{"type", "WordPiece"}})), HasSubstr("\"WordPiece\""));
  EXPECT_THAT(refused(with("/post_processor", {{"type", "PairProcessing"}})),
              HasSubstr("\"PairProcessing\""));
}

TEST_F(TokenizerTest, RefusesWhatContradictsItself) {
  EXPECT_THAT(refused(with("/model/merges/0", "a c")),
              AllOf(HasSubstr("merges"), HasSubstr("\"c\"")));
  EXPECT_THAT(refused(with("/model/merges/0", "a a")), HasSubstr("\"aa\""));
  EXPECT_THAT(refused(with("/model/merges/0", "ab")), HasSubstr("\"ab\""));
  EXPECT_THAT(refused(with("/model/vocab/b", 1)), HasSubstr("id 1 of"));
  EXPECT_THAT(refused(with("/model/vocab/b", -2)), HasSubstr("-2"));
  EXPECT_THAT(refused(with("/model/vocab/b", 1LL << 40)), HasSubstr("\"b\""));
  EXPECT_THAT(refused(with("/model/end_of_word_suffix", "</w>")), HasSubstr("end_of_word_suffix"));
}

TEST_F(TokenizerTest, RefusesACharacterWhoseUnknownTokenIsNone) {
  json stated = with("/model/unk_token", "none");
  EXPECT_THAT(open(stated)->encode("é"), ElementsAre(6 + 0xc3, 6 + 0xa9)) << "bytes come first";
  stated["model"]["vocab"].erase("<0xA9>");
  const auto tokenizer = open(stated);
  EXPECT_THAT(tokenizer->encode("aè"), ElementsAre(1, 6 + 0xc3, 6 + 0xa8))
      << "those that there are";
  EXPECT_THAT(usage_message([&] { tokenizer->encode("é"); }),
              AllOf(HasSubstr("é"), HasSubstr("unk_token \"none\"")));
  stated["model"]["unk_token"] = "<unk>";
  EXPECT_THAT(open(stated)->encode("éé"), ElementsAre(0)) << "fused";
}

TEST_F(TokenizerTest, PutsTokensAroundATextAsClassifiersDo) {
  for (const char* type : {"RobertaProcessing", "BertProcessing"}) {
    const json around{{"type", type}, {"sep", {"b", 2}}, {"cls", {"<unk>", 0}}};
    EXPECT_THAT(open(with("/post_processor", around))->encode("ab", true), ElementsAre(0, 3, 2));
  }
  EXPECT_THAT(refused(with("/post_processor", {{"type", "BertProcessing"}, {"sep", {"b", 2}}})),
              HasSubstr("post_processor.cls"));
}

TEST_F(TokenizerTest, RefusesPatternsThatItCannotMatch) {
  for (const char* pattern : {"(", "a\\", "\\X", "(?~a)", "(a)\\g<1>"})
    EXPECT_THAT(refused(with("/pre_tokenizer", {{"type", "Split"},
                                                {"pattern", {{"Regex", pattern}}},
                                                {"behavior", "Isolated"},
                                                {"invert", false}})),
                HasSubstr(pattern));
}

TEST_F(TokenizerTest, RefusesFilesThatAreNone) {
  for (const char* content :
       {"", "[]", "{\"model\": 5}", "{\"model\": {\"type\": \"BPE\"}}", "{\"mod"})
    EXPECT_THAT(usage_message([&] { open(std::string(content)); }),
                AllOf(HasSubstr("data.tokenizer"), HasSubstr(file_.string())))
        << content;
}

TEST_F(TokenizerTest, RefusesPartsOfAnyDepth) {
  json steps = {{"type", "NFC"}};
  for (int depth = 0; depth < 40; ++depth)
    steps = {{"type", "Sequence"}, {"normalizers", json::array({steps})}};
  EXPECT_THAT(refused(with("/normalizer", steps)), HasSubstr("deeper"));
}

json tenfold() {
  return {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aaaaaaaaaa"}};
}

json nine(const char* list) { return {{"type", "Sequence"}, {list, json::array_t(9, tenfold())}}; }

/// Each part is harmless, and all nine make a gigabyte of one letter.
TEST_F(TokenizerTest, BoundsWhatAllPartsMakeOfAText) {
  const auto message = [&](const char* place, const json& part) {
    return usage_message([&] { open(with(place, part))->encode("ab"); });
  };
  const auto says_it = HasSubstr("at most 64 bytes of each byte");
  EXPECT_THAT(message("/normalizer", nine("normalizers")), says_it);
  const json doubled{{"type", "Metaspace"}, {"replacement", "  "}, {"split", false}};
  EXPECT_THAT(message("/pre_tokenizer",
                      {{"type", "Sequence"}, {"pretokenizers", json::array_t(40, doubled)}}),
              says_it);
  const json prefix{{"type", "Prepend"}, {"prepend", std::string(std::size_t{2} << 20, 'a')}};
  EXPECT_THAT(message("/normalizer", prefix), says_it);
  const auto decoding = open(with("/decoder", nine("decoders")));
  EXPECT_THAT(usage_message([&] { return decoding->decode(Ids{1}); }), says_it);
}

TEST_F(TokenizerTest, BoundsWhatAnAddedTokenBecomes) {
  json stated = with("/normalizer", nine("normalizers"));
  stated["added_tokens"].push_back({{"id", 1}, {"content", "a"}, {"normalized", true}});
  EXPECT_THAT(refused(stated), HasSubstr("at most 64 bytes of each byte"));
}

/// In a text that is cut by added tokens each part gets a prefix.
TEST_F(TokenizerTest, CountsWhatIsMadeOfATextAsAWhole) {
  json stated = with("/normalizer",
                     {{"type", "Prepend"}, {"prepend", std::string(std::size_t{1} << 12, 'b')}});
  stated["added_tokens"].push_back({{"id", 1}, {"content", "a"}, {"normalized", false}});
  const auto tokenizer = open(stated);
  EXPECT_EQ(tokenizer->encode("bab").size(), 2U + 2U * 4096U + 1U) << "the control: two parts";
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "ba";
  EXPECT_THAT(usage_message([&] { tokenizer->encode(text); }), HasSubstr("at most 64 bytes"));
}

TEST_F(TokenizerTest, LetsCompatibilityFormsGrowAsUnicodeDoes) {
  json stated = with("/normalizer", {{"type", "NFKD"}});
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "\ufdfa";  // eighteen characters
  EXPECT_GT(open(stated)->encode(text).size(), 18U * 100'000U);
}

TEST_F(TokenizerTest, RefusesPartsWithoutNumber) {
  const json steps{{"type", "Sequence"}, {"normalizers", json::array_t(300, {{"type", "NFC"}})}};
  EXPECT_THAT(refused(with("/normalizer", steps)),
              AllOf(HasSubstr("at most 256 parts of normalizer"), HasSubstr("301")));
  json around{{"type", "TemplateProcessing"},
              {"single", json::array_t(100, {{"SpecialToken", {{"id", "x"}}}})},
              {"special_tokens", {{"x", {{"ids", json::array_t(100, 0)}}}}}};
  around["single"].push_back({{"Sequence", {{"id", "A"}}}});
  EXPECT_THAT(refused(with("/post_processor", around)), HasSubstr("at most 4096 ids"));
}

/// Time would be their number times the text's letters: minutes.
TEST_F(TokenizerTest, FindsAddedTokensInTimeThatIsLinearInTheText) {
  json stated = of_characters();
  // The sanitizers' build, which is not optimised, takes a minute for the number that shows a
  // quadratic time.
  constexpr int part = accrue::testing::with_address_sanitizer ? 50 : 1;
  constexpr int count = 160'000 / part;
  for (int i = 0; i < count; ++i)
    stated["added_tokens"].push_back(
        {{"id", 262 + i}, {"content", "<a" + std::to_string(i) + ">"}});
  stated["added_tokens"].push_back(
      {{"id", 262 + count}, {"content", std::string(50'000 / part, '<') + "!"}});
  const auto tokenizer = open(stated);
  const std::string last = "<a" + std::to_string(count - 1) + ">";
  EXPECT_THAT(tokenizer->encode("a<a7>b" + last), ElementsAre(1, 269, 2, 262 + count - 1));
  EXPECT_EQ(tokenizer->encode(std::string(200'000 / part, '<')).size(), 200'000U / part);
}

}  // namespace
}  // namespace accrue::data

#include "models/files/generation_config.h"

#include <fstream>

#include "support.h"

namespace accrue::models {
namespace {

using namespace models::testing;
using ::testing::HasSubstr;
using EndTokens = std::vector<std::int64_t>;

TEST(GenerationConfig, StatesOneSeveralOrNoEndTokens) {
  const auto parsed = [](const std::string& text) { return parse_end_tokens(text, "g.json"); };
  EXPECT_EQ(parsed(R"({"eos_token_id": 7})"), (EndTokens{7}));
  EXPECT_EQ(parsed(R"({"eos_token_id": [7, 0, 128009]})"), (EndTokens{7, 0, 128009}));
  EXPECT_EQ(parsed(R"({"eos_token_id": null})"), EndTokens{});
  EXPECT_EQ(parsed("{}"), EndTokens{});
}

TEST(GenerationConfig, ThatStatesSomethingElseIsRefused) {
  for (const char* text :
       {R"({"eos_token_id": -1})", R"({"eos_token_id": 1.5})", R"({"eos_token_id": "<end>"})",
        R"({"eos_token_id": [1, [2]]})", R"({"eos_token_id": 18446744073709551615})", "[]", "{"})
    EXPECT_THAT(message_of([&] { parse_end_tokens(text, "g.json"); }), HasSubstr("g.json")) << text;
}

TEST(GenerationConfig, ComesBeforeConfigJson) {
  const TemporaryFolder folder;
  std::ofstream(folder / "config.json") << R"({"eos_token_id": 1})";
  EXPECT_EQ(read_end_tokens(folder / ""), (EndTokens{1}));
  std::ofstream(folder / "generation_config.json") << R"({"eos_token_id": [2, 3]})";
  EXPECT_EQ(read_end_tokens(folder / ""), (EndTokens{2, 3}));
}

}  // namespace
}  // namespace accrue::models

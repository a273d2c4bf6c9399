#include "core/name_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/core/error.h"

namespace accrue {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> names{
    "model.layers.0.self_attn.q_proj.weight", "model.layers.10.self_attn.q_proj.weight",
    "model.layers.0.mlp.up_proj.weight", "model.embed_tokens.weight"};

TEST(NamePattern, MatchesWholePartsOfANameThatFollowOnEachOther) {
  for (const char* pattern :
       {"q_proj", "layers.0", "self_attn.q_proj", "model", "weight", "model.layers.*.self_attn",
        "model.layers.0.self_attn.q_proj.weight", "[kqv]_proj", "layers.?"})
    EXPECT_TRUE(matches_name(pattern, names[0])) << pattern;
  for (const char* pattern :
       {"", "proj", "layers.1", "q_pro", "model.q_proj", "[k]_proj", ".", "*.x"})
    EXPECT_FALSE(matches_name(pattern, names[0])) << pattern;
  EXPECT_FALSE(matches_name("layers.1", names[1]));
  EXPECT_FALSE(matches_name("layers.?", names[1]));
}

TEST(NamePattern, OnesThatMatchNothingAreRefusedWithWhatThereIs) {
  check_patterns("lora.targets", {"q_proj", "mlp"}, names);
  try {
    check_patterns("lora.targets", {"q_proj", "c_attn"}, names);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_THAT(error.what(), HasSubstr("\"c_attn\""));
    EXPECT_THAT(error.what(), HasSubstr("model.layers.*.self_attn.q_proj.weight, "
                                        "model.layers.*.mlp.up_proj.weight and "
                                        "model.embed_tokens.weight"));
  }
}

}  // namespace
}  // namespace accrue

#include "cli/arguments/typed_keys.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace accrue::cli {
namespace {

constexpr std::array kOptions{TypedKey{"data.train", "--data"},
                              TypedKey{"data.format", "--format"}};
constexpr std::array kOverrides{TypedKey{"data.format", "--data.format="}};

std::string suggestion_in_words(const std::string& suggestion, std::span<const TypedKey> keys) {
  return in_typed_words(usage_error("", "", "", suggestion), keys, "accrue").suggestion();
}

TEST(TypedKeys, AreInAllPartsOfAnError) {
  const Error error = in_typed_words(Error(Error::Kind::refused, "data.train", "text in data.train",
                                           "a.bin: not data.format", "data.format = \"text\""),
                                     kOptions, "accrue eval");
  EXPECT_EQ(error.kind(), Error::Kind::refused);
  EXPECT_STREQ(error.what(),
               "accrue eval --data: expected text in --data, received a.bin: not --format; try "
               "--format text");
}

TEST(TypedKeys, TakeValuesAsTheyAreTyped) {
  for (const auto& [keys, options, overrides] :
       {std::array<std::string, 3>{"data.format = \"jsonl\" or \"chat\", or another loss",
                                   "--format jsonl or chat, or another loss",
                                   "--data.format=jsonl or chat, or another loss"},
        {"the format in data.format, or data.format = \"text\" to train",
         "the format in --format, or --format text to train",
         "the format in --data.format, or --data.format=text to train"},
        {"data.format = \"text\", \"jsonl\" or \"auto\"", "--format text, jsonl or auto",
         "--data.format=text, jsonl or auto"},
        {"stating data.format.", "stating --format.", "stating --data.format."}}) {
    EXPECT_EQ(suggestion_in_words(keys, kOptions), options);
    EXPECT_EQ(suggestion_in_words(keys, kOverrides), overrides);
  }
}

TEST(TypedKeys, AreNotFoundInOtherWords) {
  for (const std::string other : {"data.train.txt", "my/data.train", "data.train_file",
                                  "--data.format=text", "data.trainer", "no key"})
    EXPECT_EQ(suggestion_in_words(other, kOptions), other);
}

}  // namespace
}  // namespace accrue::cli

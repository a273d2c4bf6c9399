#include "distributed/group/store/text_seal.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace accrue::distributed {
namespace {

const std::string kSealToken = "0123456789abcdef";
const std::string kSealedKey = "accrue/0/here/1";

std::string hexadecimal(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

TEST(TextSeal, IsTheHmacThatOthersComputeOverRunKeyAndText) {
  // By Python's hmac and hashlib: HMAC-SHA-512, its first 32 bytes, over each part preceded by its
  // length in 8 bytes.
  const std::string sealed = TextSeal(kSealToken, "run").sealed(kSealedKey, "hello");
  EXPECT_EQ(hexadecimal(sealed.substr(0, TextSeal::kBytes)),
            "3aa73cc712a15249b2db40fc7140c2beee2a891bc3694fe668579a1141b1554f");
  EXPECT_EQ(sealed.substr(TextSeal::kBytes), "hello");
}

TEST(TextSeal, OpensWhatItSealed) {
  const TextSeal seal(kSealToken, "run");
  for (const std::string& text : {std::string(), std::string("hello"), std::string(3, '\0')})
    EXPECT_EQ(seal.opened(kSealedKey, seal.sealed(kSealedKey, text)), text);
  const TextSeal open_to_all("", "run");
  EXPECT_EQ(open_to_all.opened(kSealedKey, open_to_all.sealed(kSealedKey, "hello")), "hello");
}

TEST(TextSeal, OpensNothingOfAnotherTokenRunOrKey) {
  const std::string sealed = TextSeal(kSealToken, "run").sealed(kSealedKey, "hello");
  EXPECT_FALSE(TextSeal("0123456789abcdeg", "run").opened(kSealedKey, sealed));
  EXPECT_FALSE(TextSeal("", "run").opened(kSealedKey, sealed));
  EXPECT_FALSE(TextSeal(kSealToken, "another").opened(kSealedKey, sealed));
  EXPECT_FALSE(TextSeal(kSealToken, "run").opened("accrue/0/here/2", sealed)) << "another rank";
  EXPECT_FALSE(TextSeal(kSealToken, "run").opened("accrue/0/at/1", sealed)) << "another topic";
  EXPECT_FALSE(TextSeal(kSealToken, "run").opened("accrue/1/here/1", sealed)) << "another start";
}

TEST(TextSeal, OpensNothingThatWasChanged) {
  const TextSeal seal(kSealToken, "run");
  const std::string sealed = seal.sealed(kSealedKey, "hello");
  for (std::size_t at = 0; at < sealed.size(); ++at) {
    std::string changed = sealed;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(seal.opened(kSealedKey, changed)) << at;
    EXPECT_FALSE(seal.opened(kSealedKey, sealed.substr(0, at))) << at;
  }
  EXPECT_FALSE(seal.opened(kSealedKey, sealed + "!"));
}

TEST(TextSeal, TellsWhereOnePartEndsAndTheNextBegins) {
  const std::string sealed = TextSeal(kSealToken, "run").sealed("key", "text");
  std::string shifted = sealed;
  shifted.insert(TextSeal::kBytes, "y");
  EXPECT_FALSE(TextSeal(kSealToken, "run").opened("ke", shifted));
  EXPECT_FALSE(TextSeal(kSealToken, "runk").opened("ey", sealed));
}

TEST(RandomName, IsNeverTheSame) {
  EXPECT_EQ(random_name().size(), 32U);
  EXPECT_NE(random_name(), random_name());
}

}  // namespace
}  // namespace accrue::distributed

#include "core/sha256.h"

#include <gtest/gtest.h>

namespace accrue {
namespace {

/// FIPS 180-2, appendix B.1.
TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(sha256_of("abc"),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_NE(sha256_of("abd"), sha256_of("abc"));
}

}  // namespace
}  // namespace accrue

#include "core/cause.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace accrue {
namespace {

std::string cause_of_text(const std::string& text) { return cause_of(std::runtime_error(text)); }

TEST(Cause, IsWhatStandsBeforeAStackTrace) {
  EXPECT_EQ(cause_of_text("out of memory\nException raised from allocate\nframe #0"),
            "out of memory");
}

TEST(Cause, StandsBehindAScriptsTrace) {
  EXPECT_EQ(
      cause_of_text("Traceback of TorchScript\n  ~~~~ <--- HERE\nRuntimeError: mat1 and mat2"),
      "mat1 and mat2");
}

TEST(Cause, StandsBetweenGloosPlaceAndItsAdvice) {
  EXPECT_EQ(cause_of_text("[/src/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:6556: "
                          "Connection reset by peer. This is typically caused by a remote worker "
                          "hanging. Check the logs."),
            "Read error [127.0.0.1]:6556: Connection reset by peer");
}

TEST(Cause, KeepsBracketsThatAreNoPlace) {
  EXPECT_EQ(cause_of_text("[3, 4] does not match [4, 3]"), "[3, 4] does not match [4, 3]");
  EXPECT_EQ(cause_of_text("no bracket.cc:1] here"), "no bracket.cc:1] here");
  EXPECT_EQ(cause_of_text("[pair.cc:537 without an end"), "[pair.cc:537 without an end");
  EXPECT_EQ(cause_of_text(""), "");
}

}  // namespace
}  // namespace accrue

#include "observe/report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace accrue::observe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(Page, DataCannotEndItsElement) {
  const std::string hostile = "{\"reason\":\"</script><script>alert(1)</script><!--\"}";
  const std::string plain = make_page({.title = "t", .data_json = "{}", .nonce = "n"});
  const std::string page = make_page({.title = "t", .data_json = hostile, .nonce = "n"});
  EXPECT_EQ(count(page, "</script>"), count(plain, "</script>"));
  EXPECT_EQ(count(page, "<script"), count(plain, "<script"));
  EXPECT_EQ(count(page, "<!--"), count(plain, "<!--"));
  EXPECT_THAT(page, HasSubstr("\\u003c/script>\\u003cscript>alert(1)"));
  EXPECT_GT(count(hostile, "</script>"), 0U) << "the control has what is looked for";
}

TEST(Page, TheTitleIsText) {
  const std::string page = make_page({.title = "</title><b>&", .data_json = "{}", .nonce = "n"});
  EXPECT_THAT(page, HasSubstr("<title>&lt;/title>&lt;b>&amp;</title>"));
}

TEST(Page, WhatWasPutInIsNotLookedAtAgain) {
  const std::string page =
      make_page({.title = "{{data}}", .data_json = "{\"a\":\"{{nonce}}\"}", .nonce = "secret1"});
  EXPECT_THAT(page,
              AllOf(HasSubstr("<title>{{data}}</title>"), HasSubstr("{\"a\":\"{{nonce}}\"}")));
}

TEST(Page, NeedsNothingElse) {
  const std::string page = make_page({.title = "t", .data_json = "{}", .nonce = "n"});
  EXPECT_THAT(page,
              AllOf(HasSubstr("default-src 'none'"), HasSubstr("nonce-n"), HasSubstr("uPlot")));
  EXPECT_THAT(page, AllOf(Not(HasSubstr(" src=")), Not(HasSubstr("@import")),
                          Not(HasSubstr("url(")), Not(HasSubstr("innerHTML"))));
  EXPECT_LT(page.size(), 150'000U);
}

TEST(Page, IsKnownByItsBeginning) {
  const std::string page = make_page({.title = "t", .data_json = "{}", .nonce = "n"});
  EXPECT_TRUE(is_page(page));
  EXPECT_TRUE(is_page(page.substr(0, 256)));
  EXPECT_FALSE(is_page(""));
  EXPECT_FALSE(is_page("<!doctype html>\n<html><title>mine</title>"));
}

}  // namespace
}  // namespace accrue::observe

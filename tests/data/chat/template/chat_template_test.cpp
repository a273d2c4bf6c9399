// The meaning of templates that needs no other program to check, and what is refused.
// chat_template_golden.py compares renderings with those of jinja2.
#include "data/chat/template/chat_template.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "data/json/large_integer.h"
#include "support/errors.h"

namespace accrue::data {
namespace {

using accrue::testing::usage_message;
using Variables = nlohmann::ordered_json;

std::tm some_day() {
  std::tm day{};
  day.tm_year = 126;
  day.tm_mon = 2;
  day.tm_mday = 7;
  return day;
}

std::string shown(const std::string& source, const Variables& variables = Variables::object()) {
  return ChatTemplate::parse(source, "chat template").render(variables, some_day());
}

std::string refused(const std::string& source, const Variables& variables = Variables::object()) {
  return usage_message([&] { shown(source, variables); });
}

void expect_names(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(ChatTemplate, WhitespaceAroundTagsIsCutAsTransformersCutsIt) {
  EXPECT_EQ(shown("{% if true %}\n  a\n  {% endif %}\nb\n"), "  a\nb");
  EXPECT_EQ(shown("  {{ 1 }}\n"), "  1");
  EXPECT_EQ(shown("a  {%- if true -%}  \n b {% endif %}"), "ab ");
  EXPECT_EQ(shown("  {%+ if true +%}\nx{% endif %}"), "  \nx");
  EXPECT_EQ(shown("a\n  {# gone #}\nb"), "a\nb");
  EXPECT_EQ(shown("{% raw %}{{ x }}{% endraw %}\n!"), "{{ x }}!");
}

TEST(ChatTemplate, ValuesPrintAsPythonPrintsThem) {
  EXPECT_EQ(shown("{{ [1, 1.0, true, none, 'a\\n\"', {'k': (1,)}] }}"),
            "[1, 1.0, True, None, 'a\\n\"', {'k': (1,)}]");
  EXPECT_EQ(shown("{{ 1e16 }} {{ 0.0001 }} {{ 1e-5 }} {{ 7 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }}"),
            "1e+16 0.0001 1e-05 3.5 -4 2");
  EXPECT_EQ(shown("{{ missing }}|{{ x.missing }}", {{"x", Variables::object()}}), "|");
}

TEST(ChatTemplate, FiltersAndTestsBindTighterThanOperators) {
  EXPECT_EQ(shown("{{ 1 + 2 is odd }}"), "1");
  EXPECT_EQ(shown("{{ -2 ** 2 }} {{ -1 | abs }} {{ 'a' ~ 1 + 2 | string if false else 'x' }}"),
            "4 1 x");
}

TEST(ChatTemplate, LoopsKnowTheirNeighboursAndSetStaysInside) {
  EXPECT_EQ(shown("{% set x = 0 %}{% for i in [1, 2, 3] if i != 2 %}{% set x = i %}"
                  "{{ loop.index }}/{{ loop.length }}{{ loop.previtem }}{{ loop.last }} {% endfor "
                  "%}{{ x }}"),
            "1/2False 2/21True 0");
  EXPECT_EQ(shown("{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}"
                  "{% if i == 2 %}{% break %}{% endif %}{% endfor %}{{ ns.n }}"),
            "3");
  EXPECT_EQ(shown("{% for k, v in d.items() %}{{ k }}={{ v }};{% else %}none{% endfor %}",
                  {{"d", {{"a", 1}}}}),
            "a=1;");
}

TEST(ChatTemplate, KeysOfMessagesAreReadBeforeAndBehindMethods) {
  const Variables variables = {{"m", {{"items", 1}, {"content", "x"}}}};
  EXPECT_EQ(shown("{{ m['items'] }}{{ m.content }}{{ m.get('zz', 2) }}", variables), "1x2");
  EXPECT_EQ(shown("{% for key, value in m.items() %}{{ key }} {% endfor %}", variables),
            "items content ");
}

TEST(ChatTemplate, JsonIsThatOfPythonWithOtherCharactersAsTheyAre) {
  const Variables variables = {{"x", {{"é", {1.0, nullptr}}, {"b", "<\"\n\x7f>"}}}};
  EXPECT_EQ(shown("{{ x | tojson }}", variables), "{\"é\": [1.0, null], \"b\": \"<\\\"\\n\x7f>\"}");
  EXPECT_EQ(shown("{{ x | tojson(ensure_ascii=true, indent=1, sort_keys=true) }}", variables),
            "{\n \"b\": \"<\\\"\\n\\u007f>\",\n \"\\u00e9\": [\n  1.0,\n  null\n ]\n}");
}

TEST(ChatTemplate, LargeIntegersAreThoseOfPython) {
  const Variables variables = {{"x", large_integer("100000000000000000000")},
                               {"y", large_integer("-100000000000000000001")},
                               {"z", 18446744073709551615ULL},
                               {"real", 1e20}};
  EXPECT_EQ(
      shown("{{ x }} {{ [y] }} {{ z | string }} {{ {'k': x} | tojson }} {{ 'a' ~ y }}", variables),
      "100000000000000000000 [-100000000000000000001] 18446744073709551615 "
      "{\"k\": 100000000000000000000} a-100000000000000000001");
  EXPECT_EQ(shown("{{ x is integer }} {{ x is number }} {{ x is float }} {{ x is boolean }} "
                  "{{ x | int }} {{ x | float }} {{ 'y' if x }}",
                  variables),
            "True True False False 100000000000000000000 1e+20 y");
  EXPECT_EQ(shown("{{ x == x }} {{ x == y }} {{ x == real }} {{ x == 1 }} {{ x != 'x' }} "
                  "{{ x in [1, real] }} {{ {x: 'k'}[real] }}",
                  variables),
            "True False True False True True k");
  EXPECT_EQ(shown("{{ y < x }} {{ x > 5 }} {{ y < -1.5 }} {{ x <= real }} {{ x < real }} "
                  "{{ [x, 1, y, z, 2.5] | sort }}",
                  variables),
            "True True True True False "
            "[-100000000000000000001, 1, 2.5, 18446744073709551615, 100000000000000000000]");
  for (const char* source : {"{{ x + 1 }}", "{{ -x }}", "{{ x is even }}", "{{ range(x) }}",
                             "{{ 'abc'[:x] }}", "{{ '%d' % x }}", "{{ x | abs }}"})
    expect_names(refused(source, variables), "63 bits");
}

TEST(ChatTemplate, TimeIsTheOneThatIsGiven) {
  EXPECT_EQ(shown("{{ strftime_now('%d %b %Y') }}"), "07 Mar 2026");
}

TEST(ChatTemplate, WhatIsNotKnownIsRefusedByNameAndLine) {
  expect_names(refused("a\n{{ x | groupby('a') }}"), "'groupby' in line 2");
  expect_names(refused("\n\n{% if x is escaped %}{% endif %}"), "'escaped' in line 3");
  expect_names(refused("{% include 'x' %}"), "'include' in line 1");
  expect_names(refused("{{ 'a'.zfill(3) }}"), "'zfill' in line 1");
  expect_names(refused("{{ lipsum() }}"), "'lipsum' in line 1");
  expect_names(refused("{{ f() }}"), "'f'");
  expect_names(refused("{{ f(*x) }}"), "'*'");
  expect_names(refused("{% for x in y recursive %}{% endfor %}"), "'recursive'");
  expect_names(refused("{{ 0x10 }}"), "0x1");
  expect_names(refused("{{ x.__class__ }}", {{"x", 1}}), "'__class__'");
  expect_names(refused("{% set x %}{{ x }}{% endset %}"), "'x' in line 1");
  expect_names(refused("{% macro m() %}{{ caller() }}{% endmacro %}"), "'caller'");
}

TEST(ChatTemplate, WhatIsNoTemplateIsRefusedWithItsLine) {
  expect_names(refused("{% if x %}"), "endif");
  expect_names(refused("\n{{ x"), "line 2");
  expect_names(refused("{{ (1] }}"), "']'");
  expect_names(refused("{# x"), "#}");
  expect_names(refused("{{ 'x }}"), "the end of a text");
  expect_names(refused("{% endfor %}"), "'endfor'");
  expect_names(refused("{{ }}"), "an expression");
  expect_names(refused("{{ '\\ud800' }}"), "half a pair");
  expect_names(refused("\xff"), "UTF-8");
  expect_names(refused("{% break %}"), "break");
}

TEST(ChatTemplate, WhatTheTemplateRaisesIsSaid) {
  expect_names(refused("\n{{ raise_exception('roles must alternate') }}"),
               "'roles must alternate', which the template raises in line 2");
  expect_names(refused("{{ x.y.z }}", {{"x", Variables::object()}}), "'z'");
  expect_names(refused("{{ 'a' + none }}"), "a text and None");
  expect_names(refused("{{ x.append(1) }}", {{"x", Variables::array()}}), "'append'");
  expect_names(refused("{% set x.y = 1 %}", {{"x", 1}}), "a namespace");
}

TEST(ChatTemplate, CostIsBounded) {
  expect_names(
      refused("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
      "units of work");
  expect_names(refused("{{ 'x' * 10000000000 }}"), "units of work");
  expect_names(refused("{% set ns = namespace(t='xx') %}{% for i in range(64) %}"
                       "{% set ns.t = ns.t ~ ns.t %}{% endfor %}"),
               "units of work");
  expect_names(
      refused("{% set ns = namespace(l=[1]) %}{% for i in range(64) %}"
              "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l == ns.l | string }}{{ ns.l }}"),
      "units of work");
  expect_names(refused("{{ range(1000000) | list }}"), "100000");
  expect_names(refused("{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}"), "without end");
  expect_names(refused("{% set ns = namespace() %}{% set ns.n = ns %}{{ ns }}"), "in itself");
  expect_names(refused("{% set ns = namespace(l=[]) %}{% for i in range(1000) %}"
                       "{% set ns.l = [ns.l] %}{% endfor %}"),
               "200 deep");
  expect_names(refused("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"),
               "deep");
  std::string sum = "1";
  for (int i = 0; i < 5000; ++i) sum += " + 1";
  expect_names(refused("{{ " + sum + " }}"), "deep");
  std::string blocks;
  for (int i = 0; i < 5000; ++i) blocks += "{% if true %}";
  expect_names(refused(blocks), "deep");
  expect_names(refused("{{ 9223372036854775807 + 1 }}"), "63 bits");
  expect_names(refused("{{ '%99999d' % 1 }}"), "width");
}

/// With searches that go back over text already read these would take hours.
TEST(ChatTemplate, LongTextsAreSearchedInTimeLinearInThem) {
  const std::string text = "{% set t = 'a' * 1000000 %}{% set p = 'a' * 500000 %}";
  EXPECT_EQ(shown(text + "{{ t.rfind('b' ~ p) }} {{ t.find(p ~ 'b') }} {{ (p ~ 'b') in t }}"),
            "-1 -1 False");
  EXPECT_EQ(shown(text + "{{ t.rsplit('b' ~ p, 1) | length }} {{ t.strip('b' ~ p) | length }}"),
            "1 0");
}

TEST(ChatTemplate, VariablesThatItCannotUseAreRefused) {
  expect_names(refused("{{ x + 1 }}", {{"x", 18446744073709551615ULL}}), "63 bits");
  expect_names(refused("{{ x }}", {{"x", std::string("\xff")}}), "UTF-8");
  Variables deep = 1;
  for (int i = 0; i < 300; ++i) deep = Variables::array({deep});
  expect_names(refused("{{ x }}", {{"x", deep}}), "200 deep");
  expect_names(refused("{{ x }}", Variables::array()), "an object");
}

TEST(ChatTemplate, GenerationBlocksAreLearned) {
  const auto chat = ChatTemplate::parse(
      "{% for m in messages %}<{{ m.r }}>{% generation %}{{ m.c }}</{% endgeneration %}{{ '!' }}{% "
      "endfor "
      "%}",
      "chat");
  EXPECT_TRUE(chat.has_generation());
  const Variables variables = {{"messages", {{{"r", "a"}, {"c", "b"}}}}};
  const std::vector<ChatTemplate::Piece> expected = {{"<a>", false}, {"b</", true}, {"!", false}};
  EXPECT_EQ(chat.render_pieces(variables, some_day()), expected);
  const auto hidden = ChatTemplate::parse(
      "{% set x %}{% generation %}a{% endgeneration %}{% endset %}{{ x }}", "chat");
  EXPECT_EQ(hidden.render(Variables::object(), some_day()), "a");
  expect_names(usage_message([&] { hidden.render_pieces(Variables::object(), some_day()); }),
               "outside of macros");
}

}  // namespace
}  // namespace accrue::data

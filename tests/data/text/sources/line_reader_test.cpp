#include "data/text/sources/line_reader.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/rng.h"
#include "data/folder.h"

namespace accrue::data {
namespace {

using testing::Folder;

struct Seen {
  std::int64_t number;
  std::int64_t begin;
  std::string text;
  bool operator==(const Seen&) const = default;
};

std::vector<Seen> read_lines(const std::string& path) {
  const FilePool files({path}, "test");
  LineReader reader(files, 0, "test");
  std::vector<Seen> seen;
  while (const auto line = reader.next())
    seen.push_back({line->number, line->begin, std::string(line->text)});
  return seen;
}

std::vector<Seen> read_lines_with_getline(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<Seen> seen;
  std::string text;
  std::int64_t number = 0, begin = 0;
  for (; std::getline(file, text); begin += std::ssize(text) + 1) {
    ++number;
    if (text.find_first_not_of(" \t\r") != text.npos) seen.push_back({number, begin, text});
  }
  return seen;
}

TEST(LineReader, AgreesWithGetline) {
  const Folder folder;
  for (const char* content :
       {"", "\n", "a", "a\n", "\n\na\n\n b \n", "a\r\n\r\nb\r\n", "a\n   \nb"}) {
    const auto file = folder.write("a", content);
    EXPECT_EQ(read_lines(file), read_lines_with_getline(file)) << content;
  }
}

TEST(LineReader, AgreesWithGetlineAcrossBlocks) {
  // Lines up to three blocks long, whose ends fall anywhere.
  const Folder folder;
  std::string content;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const std::uint64_t word = random_word(7, 0, i);
    const std::size_t length = i % 10 == 0 ? word % (std::size_t{3} << 20) : word % 5000;
    content += std::string(length, static_cast<char>('a' + i % 26)) + (i % 7 == 0 ? "\n\n" : "\n");
  }
  const auto file = folder.write("a", content);
  const auto lines = read_lines(file);
  ASSERT_GT(lines.size(), 30U);
  EXPECT_TRUE(lines == read_lines_with_getline(file));
  const FilePool files({file}, "test");
  for (const Seen& line : lines) EXPECT_EQ(line_number_at(files, 0, line.begin), line.number);
}

}  // namespace
}  // namespace accrue::data

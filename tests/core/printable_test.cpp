#include "core/printable.h"

#include <gtest/gtest.h>

#include <iostream>
#include <sstream>
#include <string>

#include "core/printable_streams.h"

namespace accrue {
namespace {

TEST(Printable, EscapesWhatSteersATerminal) {
  EXPECT_EQ(printable("\x1b[31mred\x07\r"), "\\u001b[31mred\\u0007\\u000d");
  EXPECT_EQ(printable(std::string("\0\b\x7f", 3)), "\\u0000\\u0008\\u007f");
  EXPECT_EQ(printable("\u009b2J\u0085"), "\\u009b2J\\u0085") << "C1 as characters";
  EXPECT_EQ(printable("\x9b\x32J"), "\\x9b2J") << "C1 as bytes";
  EXPECT_EQ(printable("a\u202eb\u2066c\u200fd\u061c"), "a\\u202eb\\u2066c\\u200fd\\u061c");
}

TEST(Printable, KeepsAllOtherText) {
  const std::string text = "é 字 \U0001f600 \u00a0 \\u001b ~\tline\n";
  EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable_line("a\tb\n"), "a\\u0009b\\u000a");
}

TEST(Printable, ShowsBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(printable("\xe5\xad"), "\\xe5\\xad") << "a character that is not whole";
  EXPECT_EQ(printable("\xc1\x9b"), "\\xc1\\x9b") << "an overlong one";
}

TEST(Printable, LeavesItsOwnResultAsItIs) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::string once = printable(all);
  EXPECT_EQ(printable(once), once);
  for (const char byte : once)
    EXPECT_TRUE((byte >= ' ' && byte < '\x7f') || byte == '\n' || byte == '\t') << int{byte};
}

TEST(PrintableBuffer, MakesWhatIsWrittenPrintableHoweverItComes) {
  std::ostringstream out;
  {
    PrintableBuffer printed(*out.rdbuf());
    std::ostream stream(&printed);
    for (const char byte : std::string("é\x1b字\u202e")) stream << byte << std::flush;
    EXPECT_EQ(out.str(), "é\\u001b字\\u202e");
    stream << "\xe5";
  }
  EXPECT_EQ(out.str(), "é\\u001b字\\u202e\\xe5") << "half a character, at the end";
}

TEST(PrintableBuffer, LetsAccruesOwnSequencesPass) {
  std::ostringstream out, plain;
  PrintableBuffer printed(*out.rdbuf());
  std::ostream stream(&printed);
  stream << Unescaped{"\x1b[2m"} << "\x1b" << Unescaped{"\x1b[0m"};
  EXPECT_EQ(out.str(), "\x1b[2m\\u001b\x1b[0m");
  plain << Unescaped{"\x1b[2m"};
  EXPECT_EQ(plain.str(), "\x1b[2m");
}

TEST(PrintableBuffer, ReportsWhatCannotBeWritten) {
  std::stringbuf nowhere(std::ios::in);
  PrintableBuffer printed(nowhere);
  std::ostream stream(&printed);
  stream << "text";
  EXPECT_FALSE(stream.good());
  stream.clear();
  stream << Unescaped{"text"};
  EXPECT_FALSE(stream.good());
}

TEST(PrintableStreams, ChangesTheStandardStreamsForAsLongAsItLives) {
  std::ostringstream out;
  std::streambuf* const before = std::cerr.rdbuf(out.rdbuf());
  {
    const PrintableStreams printed;
    std::cerr << "\x1b";
  }
  std::cerr << "\x07";
  std::cerr.rdbuf(before);
  EXPECT_EQ(out.str(), "\\u001b\x07");
}

}  // namespace
}  // namespace accrue

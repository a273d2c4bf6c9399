#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "train/config/translations/translations.h"

/// docs/guide/translations.md agrees with the error messages.
namespace accrue::train {
namespace {

std::string in_backquotes(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "`" : ", `") + word + "`";
  return text;
}

std::string row_of_guide(const Translation& row) {
  std::string users;
  for (const Users& one : row.users)
    users += (users.empty() ? "" : "; ") + std::string(one.system) + " " +
             in_backquotes(words_of(one.names));
  return "| " + users + " | " + in_backquotes(lines_for(row, Value{true})) + " | " + row.remark +
         " |";
}

TEST(Guide, HasEveryTranslationInOrder) {
  std::ifstream file(ACCRUE_TRANSLATIONS_GUIDE);
  ASSERT_TRUE(file) << ACCRUE_TRANSLATIONS_GUIDE;
  std::ostringstream guide;
  guide << file.rdbuf();
  std::string table;
  for (const Translation* row : translations()) table += row_of_guide(*row) + "\n";
  EXPECT_NE(guide.str().find(table), std::string::npos) << "the guide's table is to be this one:\n"
                                                        << table;
}

}  // namespace
}  // namespace accrue::train

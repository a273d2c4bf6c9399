#pragma once

#include <string>
#include <string_view>

namespace accrue::observe {

struct PageContent {
  std::string_view title;
  std::string_view data_json;
  /// Letters and digits that the data cannot know: browsers run only scripts that carry
  /// them.
  std::string_view nonce;
};

/// The whole page: one HTML file that needs nothing else. No text of `content` becomes markup.
std::string make_page(const PageContent& content);

/// Whether a file with this beginning was made by make_page(), of this version or another.
bool is_page(std::string_view beginning);

}  // namespace accrue::observe

#pragma once

#include <string>
#include <string_view>

namespace accrue::observe {

struct PageContent {
  std::string_view title;
  std::string_view data_json;
  /// Letters and digits that nothing in the data can know: browsers run scripts that carry it, and
  /// no others.
  std::string_view nonce;
};

/// The whole page: one HTML file that needs nothing else. No text of `content` becomes markup.
std::string make_page(const PageContent& content);

/// Whether a file that begins so was made by make_page(), of this version or another.
bool is_page(std::string_view beginning);

}  // namespace accrue::observe

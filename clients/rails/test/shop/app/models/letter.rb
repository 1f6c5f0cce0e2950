# frozen_string_literal: true

class Letter < ActiveRecord::Base
end
